//! `train export`: write a model's weights for other programs.

use std::path::Path;

use anyhow::Result;
use training::data::Vocabularies;
use training::error::UsageError;
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use transformer::TransformerConfig;
use transformer::weights::{
    self, Contents, Dtype, ImportOptions, Layout, Parameters, WeightsError, WeightsFile,
};

use super::error::wrong;
use super::import::flags_of;
use super::output_file::{check_output, write};
use super::pytorch::Exported;
use super::web;
use crate::args::ExportArgs;
use crate::args::flags::fit_flag_of;
use crate::device::DeviceName;
use crate::terminal::output;

/// Runs the command.
///
/// # Errors
///
/// A run that cannot be read, a model that the layout cannot represent, or a file that cannot be
/// written.
pub fn run(args: &ExportArgs) -> Result<()> {
    let Some(layout) = args.layout else {
        return web::run(args);
    };
    if args.dtype == Some(Dtype::Int8) {
        let needed = match layout {
            Layout::Native if args.rename.is_empty() => None,
            Layout::Native => {
                Some("cannot be used with --rename: matrices are found by their names")
            }
            _ => Some("needs --layout native: other layouts have no 8-bit integers"),
        };
        if let Some(needed) = needed {
            return Err(UsageError::new("--dtype", Dtype::Int8, needed).into());
        }
    }
    check_output(&args.output, args.force)?;
    let Source {
        config,
        contents,
        parameters,
        vocabularies,
    } = Source::read(args)?;
    let mut theirs = weights::export(&config, contents, &parameters, layout, !args.no_positions)
        .map_err(unrepresentable)?;
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
    ))?;
    if layout != Layout::Native {
        let (heads, flags) = (config.n_heads, flags_of(&config));
        let dropout = config.dropout;
        output::note(&format!(
            "the file does not have the settings of the model; to import it here again, use\n  train import {path} --layout {layout} --heads {heads} {flags} --dropout {dropout}"
        ));
    }
    let exported = Exported {
        config: &config,
        contents,
        layout,
        vocabularies,
        has_positions: !args.no_positions,
        path: &args.output,
    };
    match exported.code() {
        Some(code) => output::result(&code),
        None => Ok(()),
    }
}

/// Converts an error about a setting that the layout cannot represent. The message names the
/// setting by its flag, or by its path if `fit` has no flag for it.
fn unrepresentable(error: WeightsError) -> UsageError {
    let WeightsError::Layout {
        layout,
        field,
        value,
    } = error
    else {
        return UsageError::new("RUN", "", error.to_string());
    };
    let path = format!("model.{field}");
    let setting = match fit_flag_of(&path) {
        Some(flag) => format!("{flag} {value}"),
        None => format!("{path}={value}"),
    };
    let expected = format!("cannot represent the model, which has {setting}; --layout native can");
    UsageError::new("--layout", layout, expected)
}

/// The model to export.
struct Source {
    config: TransformerConfig,
    /// The part of the model that the source contains: the whole model, the encoder or the decoder.
    contents: Contents,
    /// Parameters, by the names that they have in a whole model.
    parameters: Parameters,
    /// Special tokens; `None` for a file of weights, which does not list them.
    vocabularies: Option<Vocabularies>,
}

impl Source {
    fn read(args: &ExportArgs) -> Result<Self> {
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
        Ok(Self {
            contents: Contents::Model,
            parameters: weights::parameters(&run.model),
            vocabularies: Some(run.dataset.codec().vocabularies()),
            config: run.config.model,
        })
    }
}

fn file(path: &Path) -> Result<Source, UsageError> {
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
    Ok(Source {
        config: imported.config,
        contents: imported.contents,
        parameters: imported.parameters,
        vocabularies: None,
    })
}
