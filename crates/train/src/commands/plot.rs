//! `train plot`: draw plots of runs.

use std::io;
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

use training::error::{UsageError, quote, unwritable};
use training::run::RunData;
use training::run::checkpoint::TrainedRun;
use training::run::layout::check_names;

use crate::args::PlotArgs;
use crate::args::flags::describe;
use crate::device::DeviceName;
use crate::plot::attention::{attention_maps, example_source};
use crate::plot::{AttentionMaps, ChartOptions, Plot, RunPlot};
use crate::terminal::output;

/// Runs the command.
///
/// # Errors
///
/// The flags are wrong, a run cannot be read, the device does not start, or a file cannot be
/// written.
pub fn run(args: &PlotArgs) -> Result<()> {
    args.check()?;
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let runs = args.runs.iter().map(|folder| RunData::read(folder));
    let runs: Vec<RunData> = runs.collect::<Result<_, _>>()?;
    if let (None, [run]) = (&args.output, &runs[..]) {
        check_names("run", &run.folder)?;
    }
    // The maps are computed before the first file is written, so that a wrong source leaves no
    // files.
    let is_explicit = args.source.is_some() || !args.only.is_empty() || !args.layers.is_empty();
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
    let options = ChartOptions {
        progress: args.x,
        is_each_seed: args.each_seed,
        ..ChartOptions::default()
    };
    for &kind in RunPlot::value_variants() {
        if kind == RunPlot::Attention || !args.wants(kind) {
            continue;
        }
        if let Some(chart) = kind.draw(&runs, options) {
            save(args, |ending| kind.file_name(ending), &chart)?;
        } else if !args.only.is_empty() {
            let name = kind.file_name("svg");
            output::note(&format!("no {name}: there are no data for it"));
        }
    }
    for maps in maps {
        save(args, |ending| format!("{}.{ending}", maps.name), &maps)?;
    }
    Ok(())
}

/// Returns the attention maps of the last checkpoint of a run.
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
    attention_maps(&trained.model, dataset, &source, &name, &args.map_options())
}

fn save(args: &PlotArgs, name: impl Fn(&str) -> String, plot: &impl Plot) -> Result<()> {
    for ending in ["svg"].into_iter().chain(args.png.then_some("png")) {
        let path = args.folder().join(name(ending));
        let saved = plot.save(&path);
        saved.map_err(|error| cannot_write(args, &path, error))?;
        output::result(&path.display().to_string())?;
    }
    Ok(())
}

/// Returns the error for a plot that cannot be written. This is a usage error about `--output` if
/// the user gave that flag and another folder would help.
fn cannot_write(args: &PlotArgs, path: &Path, error: anyhow::Error) -> anyhow::Error {
    let Some(folder) = &args.output else {
        return error;
    };
    match error.downcast::<io::Error>() {
        Ok(error) => {
            let expected = format!("cannot be written ({error}); name a folder that can");
            let usage = UsageError::new("--output", folder.display(), expected);
            unwritable(path, error, usage)
        }
        Err(error) => error,
    }
}
