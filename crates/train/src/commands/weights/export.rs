//! `train export`: write a model's weights for other programs.

use std::path::Path;

use anyhow::Result;
use training::error::UsageError;
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use transformer::TransformerConfig;
use transformer::weights::{
    self, Contents, ImportOptions, Layout, Parameters, WeightsError, WeightsFile,
};

use super::error::wrong;
use super::output_file::{check_output, write};
use crate::args::ExportArgs;
use crate::device::DeviceName;
use crate::terminal::output;

/// Runs the command.
///
/// # Errors
///
/// A run that cannot be read, a model that the layout cannot hold, a file that cannot be written.
pub fn run(args: &ExportArgs) -> Result<()> {
    check_output(&args.output, args.force)?;
    let (config, contents, parameters) = source(args)?;
    let layout = args.layout;
    let mut theirs = weights::export(&config, contents, &parameters, layout, !args.no_positions)
        .map_err(|error| UsageError::new("--layout", layout, error.to_string()))?;
    drop(parameters);
    for (from, to) in &args.rename {
        let reject = |what: &str| UsageError::new("--rename", format!("{from}={to}"), what);
        let data = theirs.remove(from);
        let data = data.ok_or_else(|| reject("renames a tensor that the layout does not have"))?;
        if theirs.insert(to.clone(), data).is_some() {
            return Err(reject("gives a tensor the name of another").into());
        }
    }
    let metadata = match layout {
        Layout::Native => weights::metadata(&config),
        _ => Default::default(),
    };
    let size = write(&args.output, &theirs, args.dtype, &metadata)?;
    let (path, count) = (args.output.display(), theirs.len());
    output::result(&format!(
        "{path}: {count} tensors in the layout {layout}, {size}"
    ))
}

/// Returns the configuration of the model, the parts that the source holds, and their parameters
/// by their names in a whole model.
fn source(args: &ExportArgs) -> Result<(TransformerConfig, Contents, Parameters)> {
    if args.source.is_file() {
        let checkpoint = args.checkpoint;
        if checkpoint != CheckpointSelector::Last {
            let expected = "needs the folder of a run";
            return Err(UsageError::new("--checkpoint", checkpoint, expected).into());
        }
        return Ok(file(&args.source)?);
    }
    let device = DeviceName::choose(None)?.open()?;
    let run = TrainedRun::load_selected(&args.source, args.checkpoint, &device)?;
    let parameters = weights::parameters(&run.model);
    Ok((run.config.model, Contents::Model, parameters))
}

fn file(path: &Path) -> Result<(TransformerConfig, Contents, Parameters), UsageError> {
    let unfit = |error| match error {
        WeightsError::Heads | WeightsError::Unrecognised { .. } => UsageError::new(
            "RUN",
            path.display(),
            "is not the folder of a run, nor a file that `train import --output` wrote",
        ),
        error => wrong(path, error),
    };
    let options = ImportOptions {
        layout: Some(Layout::Native),
        ..Default::default()
    };
    let file = WeightsFile::open(path).map_err(unfit)?;
    let imported = weights::import(&file, &options).map_err(unfit)?;
    Ok((imported.config, imported.contents, imported.parameters))
}
