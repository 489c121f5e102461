//! `train plot`: plots of runs, of the positional encoding and of the warm-up.

use anyhow::Result;
use clap::ValueEnum;

use crate::checkpoint::Trained;
use crate::cli::PlotArgs;
use crate::device::DeviceName;
use crate::error::{UsageError, quote};
use crate::output;
use crate::plot::attention::{AttentionMaps, attention_maps};
use crate::plot::{Plot, Run, RunPlot, positional_encoding, warmup};
use crate::task::Split;

/// Runs the command.
///
/// # Errors
///
/// The flags are wrong, a run cannot be read, the device does not start, or a file cannot be
/// written.
pub fn run(args: &PlotArgs) -> Result<()> {
    args.check()?;
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let runs = args.runs.iter().map(|folder| Run::read(folder));
    let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
    // The maps come before the first file, so that a wrong source leaves nothing behind.
    let is_explicit = args.source.is_some() || !args.only.is_empty();
    let maps = match &runs[..] {
        [run] if args.wants(RunPlot::Attention) => match attention(args, run, &backend) {
            Err(error) if !is_explicit && error.is::<UsageError>() => {
                output::note(&format!("no attention maps: {error:#}"));
                Vec::new()
            }
            maps => maps?,
        },
        _ => Vec::new(),
    };
    if args.positional_encoding {
        let encoding = positional_encoding(&backend.open()?);
        save(args, "positional_encoding", &encoding)?;
    }
    if args.warmup {
        save(args, "warmup", &warmup())?;
    }
    for &kind in RunPlot::value_variants() {
        if runs.is_empty() || kind == RunPlot::Attention || !args.wants(kind) {
            continue;
        }
        if let Some(chart) = kind.draw(&runs) {
            save(args, &kind.name(), &chart)?;
        } else if kind != RunPlot::Bleu || !args.only.is_empty() {
            // Only runs on texts have BLEU, so nothing is said unless the user asked for it.
            let who = match runs.len() {
                1 => "the run has no data",
                _ => "none of the runs has data",
            };
            output::note(&format!("no {}.svg: {who} for it", kind.name()));
        }
    }
    for maps in maps {
        save(args, maps.name, &maps)?;
    }
    Ok(())
}

/// Returns the attention maps of the last checkpoint of a run.
fn attention(args: &PlotArgs, run: &Run, backend: &DeviceName) -> Result<Vec<AttentionMaps>> {
    let trained = Trained::load(&run.folder, &backend.open()?)?;
    let task = trained.task.as_ref();
    let source = match &args.source {
        Some(words) => task
            .parse_source(words)
            .map_err(|error| UsageError::new("--source", quote(words), error.to_string()))?,
        None => {
            let examples = task.held_out(trained.config.seed, Split::Test, 8);
            let sources = examples.into_iter().map(|example| example.source);
            let what = "has no test sequences: say which with --source";
            sources
                .max_by_key(Vec::len)
                .ok_or_else(|| UsageError::new("RUN", run.folder.display(), what))?
        }
    };
    let name = format!("{}, step {}", run.name, trained.step);
    attention_maps(&trained.model, task, &source, &name)
}

fn save(args: &PlotArgs, name: &str, plot: &impl Plot) -> Result<()> {
    for ending in ["svg"].into_iter().chain(args.png.then_some("png")) {
        let path = args.folder().join(format!("{name}.{ending}"));
        plot.save(&path)?;
        output::result(&path.display().to_string())?;
    }
    Ok(())
}
