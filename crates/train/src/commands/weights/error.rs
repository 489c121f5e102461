//! Errors about files of weights.

use std::path::Path;

use training::error::UsageError;
use training::pretrained::DOWNLOADED;
use transformer::weights::WeightsError;

/// Converts an error about a file of weights. If a flag or a command can help, the message names
/// it.
pub(super) fn wrong(path: &Path, error: WeightsError) -> UsageError {
    let missing = format!("; name a file of weights, or a folder {DOWNLOADED}");
    let hint = match &error {
        WeightsError::Heads => "; say it with --heads",
        WeightsError::Unused { .. } => "; --rename FROM=TO or --allow-unused",
        WeightsError::Missing { .. } | WeightsError::Unrecognised { .. } => {
            "; `train inspect` lists all names, --rename FROM=TO changes one"
        }
        WeightsError::Ambiguous { .. } => "; choose one with --entry",
        WeightsError::File(_) if !path.exists() => &missing,
        WeightsError::File(_) if path.is_dir() => {
            "; name the file in it, such as model.safetensors, or checkpoints/step-N/model.safetensors of a run"
        }
        WeightsError::Foreign { .. } => "; --allow-unused skips it",
        _ => "",
    };
    UsageError::new("FILE", path.display(), format!("{error}{hint}"))
}
