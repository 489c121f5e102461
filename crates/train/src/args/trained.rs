//! Flags that name a trained model.

use std::path::PathBuf;

use clap::Args;
use training::run::checkpoint::CheckpointSelector;

use super::parse::run_folder;

/// Flags that name a trained model.
#[derive(Clone, Debug, Args)]
pub struct TrainedArgs {
    /// Folder of a run, or `latest`
    #[arg(help_heading = None::<&'static str>, value_parser = run_folder())]
    pub run: PathBuf,
    /// Checkpoint: best for the run's model, which the best evaluation chose, last, the number of a
    /// step, or average:K for the mean of the last K
    #[arg(long, value_name = "WHICH", default_value = "best")]
    pub checkpoint: CheckpointSelector,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}
