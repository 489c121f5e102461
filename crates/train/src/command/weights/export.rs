//! `train export`.

use std::path::Path;

use anyhow::Result;
use transformer::TransformerConfig;
use transformer::weights::{
    self, Contents, ImportOptions, Layout, Parameters, WeightsError, WeightsFile,
};

use super::{check_output, size, warn_of_f16, write, wrong};
use crate::checkpoint::{Trained, Which};
use crate::cli::ExportArgs;
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::output;

/// Runs the command.
///
/// # Errors
///
/// A run that cannot be read, a model that the layout has no place for, a file that cannot be
/// written.
pub fn run(args: &ExportArgs) -> Result<()> {
    check_output(&args.output, args.force)?;
    let (config, contents, parameters) = source(args)?;
    let layout = Layout::from(args.layout);
    let mut theirs = weights::export(&config, contents, &parameters, layout, !args.no_positions)
        .map_err(|error| UsageError::new("--layout", layout, error.to_string()))?;
    drop(parameters);
    for (from, to) in &args.rename {
        let refuse = |what: &str| UsageError::new("--rename", format!("{from}={to}"), what);
        let data = theirs.remove(from);
        let data = data.ok_or_else(|| refuse("renames a tensor that the layout does not have"))?;
        if theirs.insert(to.clone(), data).is_some() {
            return Err(refuse("gives a tensor the name of another").into());
        }
    }
    warn_of_f16(&theirs, args.dtype);
    let about = match layout {
        Layout::Native => weights::metadata(&config),
        _ => Default::default(),
    };
    let bytes = weights::to_bytes_with(&theirs, args.dtype.into(), &about)?;
    write(&args.output, &bytes)?;
    output::result(&format!(
        "{}: {} tensors in the layout {layout}, {}",
        args.output.display(),
        theirs.len(),
        size(&args.output)?
    ))
}

/// The model, what there is of it, and its parameters by their names in a whole one.
fn source(args: &ExportArgs) -> Result<(TransformerConfig, Contents, Parameters)> {
    if args.source.is_file() {
        let checkpoint = args.checkpoint;
        if checkpoint != Which::Last {
            let expected = "needs the folder of a run";
            return Err(UsageError::new("--checkpoint", checkpoint, expected).into());
        }
        return Ok(file(&args.source)?);
    }
    let device = DeviceName::choose(None)?.open()?;
    let run = Trained::load_which(&args.source, args.checkpoint, &device)?;
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
