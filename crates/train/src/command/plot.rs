//! `train plot`: pictures of runs, of the positional encoding and of the warm-up.

use anyhow::Result;
use clap::ValueEnum;

use crate::checkpoint::Trained;
use crate::cli::{PlotArgs, RunPicture};
use crate::device::DeviceName;
use crate::error::{UsageError, quote};
use crate::output;
use crate::plot::attention::{AttentionMaps, attention_maps};
use crate::plot::{Drawing, Run, positional_encoding, warmup};
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
        let drawing = positional_encoding(&backend.open()?);
        save(args, "positional_encoding", &drawing)?;
    }
    if args.warmup {
        save(args, "warmup", &warmup())?;
    }
    for picture in RunPicture::value_variants() {
        if runs.is_empty() || !args.wants(*picture) {
            continue;
        }
        let Some(curve) = picture.curve() else {
            continue;
        };
        match curve.draw(&runs) {
            Some(drawing) => save(args, curve.name(), &drawing)?,
            // Of runs on texts alone, and nobody asked for it.
            None if *picture == RunPicture::Bleu && args.only.is_empty() => {}
            None => {
                let nobody = match &runs[..] {
                    [_] => "the run has no data",
                    _ => "none of the runs has data",
                };
                output::note(&format!("no {}.svg: {nobody} for it", curve.name()));
            }
        }
    }
    for maps in maps {
        save(args, maps.name, &maps.draw())?;
    }
    Ok(())
}

/// The maps that are asked for; none, and a note, where there can be none and nobody insists.
fn attention(args: &PlotArgs, runs: &[Run], backend: &DeviceName) -> Result<Vec<AttentionMaps>> {
    let [run] = runs else {
        return Ok(Vec::new());
    };
    if !args.wants(RunPicture::Attention) {
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

fn save(args: &PlotArgs, name: &str, drawing: &Drawing) -> Result<()> {
    for path in drawing.save(&args.folder(), name, args.format())? {
        output::result(&path.display().to_string())?;
    }
    Ok(())
}
