//! `train export --web`: write a run as the single file that the page `demo` reads.

use anyhow::{Context, Result};
use training::data::DataConfig;
use training::error::UsageError;
use training::files::write_whole;
use training::run::checkpoint::TrainedRun;
use training::run::single_file;

use super::output_file::{check_output, size_of};
use crate::args::ExportArgs;
use crate::device::DeviceName;
use crate::terminal;

/// Runs the command.
///
/// # Errors
///
/// A run that cannot be read, a task that is not synthetic, or a file that cannot be written.
pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let output = args.output.clone().unwrap_or_default();
    check_output(&output, args.force)?;
    let reject = |expected| UsageError::new("RUN", args.source.display(), expected);
    if args.source.is_file() {
        return Err(reject("must be the folder of a run, whose settings the page needs").into());
    }
    let device = DeviceName::choose(None)?.open()?;
    let run = TrainedRun::load_selected(&args.source, args.checkpoint, &device)?;
    if matches!(run.config.data, DataConfig::Text(_)) {
        let expected = "is of the task text, whose tokenisers the page cannot read; it must be of a synthetic task";
        return Err(reject(expected).into());
    }
    let bytes = single_file::to_bytes(&run.config, &run.model)?;
    let path = output.display();
    write_whole(&output, &bytes).with_context(|| format!("cannot write {path}"))?;
    let (task, size) = (run.config.data.name(), size_of(bytes.len() as u64));
    let of = args.checkpoint.describe(run.step);
    terminal::output::result(&format!(
        "{path}: a model of the task {task} for the page demo, {size}, {of}"
    ))
}
