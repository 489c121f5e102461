//! `train plot`: draw plots of runs.

use anyhow::Result;
use clap::ValueEnum;

use training::error::{UsageError, quote};
use training::run::RunData;
use training::run::checkpoint::TrainedRun;
use training::run::layout::{check_names, check_output};

use crate::args::PlotArgs;
use crate::args::flags::describe;
use crate::device::DeviceName;
use crate::plot::attention::{attention_maps, example_source};
use crate::plot::{AttentionMaps, Plot, RunPlot};
use crate::terminal::output;

/// Runs the command.
///
/// # Errors
///
/// The flags are wrong, a run cannot be read, the device does not start, or a file cannot be
/// written.
pub fn run(args: &PlotArgs) -> Result<()> {
    args.check()?;
    if let Some(folder) = &args.output {
        check_output("output", folder)?;
    }
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let runs = args.runs.iter().map(|folder| RunData::read(folder));
    let runs: Vec<RunData> = runs.collect::<Result<_, _>>()?;
    if let (None, [run]) = (&args.output, &runs[..]) {
        check_names("run", &run.folder)?;
    }
    // The maps are computed before the first file is written, so that a wrong source leaves no
    // files.
    let is_explicit = args.source.is_some() || !args.only.is_empty();
    let maps = match &runs[..] {
        [run] if args.wants(RunPlot::Attention) => match attention(args, run, &backend) {
            Err(error) if !is_explicit && error.is::<UsageError>() => {
                output::note(&format!("no attention maps: {}", describe(&error)));
                Vec::new()
            }
            maps => maps?,
        },
        _ => Vec::new(),
    };
    for &kind in RunPlot::value_variants() {
        if kind == RunPlot::Attention || !args.wants(kind) {
            continue;
        }
        let name = kind.file_name();
        if let Some(chart) = kind.draw(&runs, args.x) {
            save(args, &name, &chart)?;
        } else if !args.only.is_empty() {
            output::note(&format!("no {name}: there are no data for it"));
        }
    }
    maps.iter()
        .try_for_each(|maps| save(args, &maps.file_name(), maps))
}

/// Returns the attention maps of a run's model.
fn attention(args: &PlotArgs, run: &RunData, backend: &DeviceName) -> Result<Vec<AttentionMaps>> {
    let trained = TrainedRun::load(&run.folder, &backend.open()?)?;
    let dataset = trained.dataset.as_ref();
    let source = match &args.source {
        Some(words) => dataset
            .codec()
            .encode_source(words)
            .map_err(|error| UsageError::new("--source", quote(words), error.to_string()))?,
        None => {
            let what = "has no example for attention maps: say which with --source";
            let wrong = || UsageError::argument("run", run.folder.display(), what);
            example_source(dataset, trained.config.seed).ok_or_else(wrong)?
        }
    };
    let name = format!("{}, step {}", run.name, trained.step);
    attention_maps(&trained.model, dataset, &source, &name)
}

fn save(args: &PlotArgs, name: &str, plot: &impl Plot) -> Result<()> {
    let folder = args.folder();
    plot.save(&folder, name)?;
    output::result(&folder.join(name).display().to_string())
}
