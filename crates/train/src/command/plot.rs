//! `train plot`: pictures of runs, of the positional encoding and of the warm-up.

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
/// Wrong flags, a run that cannot be read, a device that does not come up, a picture that cannot be
/// written.
pub fn run(args: &PlotArgs) -> Result<()> {
    args.check()?;
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let runs = args.runs.iter().map(|folder| Run::read(folder));
    let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
    // Before anything is written: a wrong source shall leave nothing behind.
    let maps = attention(args, &runs, &backend)?;
    if args.positional_encoding {
        let encoding = positional_encoding(&backend.open()?);
        save(args, "positional_encoding", &encoding)?;
    }
    if args.warmup {
        save(args, "warmup", &warmup())?;
    }
    let is_wanted = |kind: &&RunPlot| !runs.is_empty() && args.wants(**kind);
    for kind in RunPlot::value_variants().iter().filter(is_wanted) {
        match kind {
            RunPlot::Attention => {}
            _ => match kind.draw(&runs) {
                Some(chart) => save(args, &kind.name(), &chart)?,
                // Only runs on texts have BLEU, and the user did not ask for it.
                None if *kind == RunPlot::Bleu && args.only.is_empty() => {}
                None => {
                    let who = match &runs[..] {
                        [_] => "the run has no data",
                        _ => "none of the runs has data",
                    };
                    output::note(&format!("no {}.svg: {who} for it", kind.name()));
                }
            },
        }
    }
    for maps in maps {
        save(args, maps.name, &maps)?;
    }
    Ok(())
}

/// The maps that are asked for; none, and a note, where there can be none and nobody insists.
fn attention(args: &PlotArgs, runs: &[Run], backend: &DeviceName) -> Result<Vec<AttentionMaps>> {
    let [run] = runs else {
        return Ok(Vec::new());
    };
    if !args.wants(RunPlot::Attention) {
        return Ok(Vec::new());
    }
    let is_asked_for = args.source.is_some() || !args.only.is_empty();
    match maps_of(args, run, backend) {
        Err(error) if !is_asked_for && error.is::<UsageError>() => {
            output::note(&format!("no attention maps: {error:#}"));
            Ok(Vec::new())
        }
        outcome => outcome,
    }
}

fn maps_of(args: &PlotArgs, run: &Run, backend: &DeviceName) -> Result<Vec<AttentionMaps>> {
    let trained = Trained::load(&run.folder, &backend.open()?)?;
    let task = trained.task.as_ref();
    let source = match &args.source {
        Some(words) => task
            .parse_source(words)
            .map_err(|error| UsageError::new("--source", quote(words), error.to_string()))?,
        None => {
            let examples = task.held_out(trained.config.seed, Split::Test, 8);
            let what = "has no test sequences: say which with --source";
            let none = || UsageError::new("RUN", run.folder.display(), what);
            let longest = examples
                .into_iter()
                .max_by_key(|example| example.source.len());
            longest.ok_or_else(none)?.source
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
