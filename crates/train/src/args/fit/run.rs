//! Flags of `fit` about the run's folder and its checkpoints.

use std::path::PathBuf;

use clap::Args;
use training::config::CheckpointingConfig;

use crate::args::check::set;
use crate::args::parse::{POSITIVE, number, whole_number};
use crate::args::run_folder::run_folder;

/// Flags of `fit` about the run's folder and its checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct RunArgs {
    /// Folder of the run, new or empty [default: runs/TASK-N]
    #[arg(long, value_name = "FOLDER")]
    pub run_dir: Option<PathBuf>,
    /// Resume the run in this folder, or the `latest`, as `train resume` does
    #[arg(long, value_name = "RUN", value_parser = run_folder())]
    pub resume: Option<PathBuf>,
    /// Write event files for TensorBoard into the run's folder
    #[arg(long)]
    pub tensorboard: bool,
    /// Steps between checkpoints [default: none]
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub checkpoint_every: Option<usize>,
    /// Seconds between checkpoints [default: 600]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = number::<f64>(POSITIVE))]
    pub checkpoint_seconds: Option<f64>,
    /// Number of newest checkpoints to keep, besides the best [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub keep: Option<usize>,
}

impl RunArgs {
    /// Overrides settings by the given flags.
    pub fn apply(&self, checkpointing: &mut CheckpointingConfig) {
        checkpointing.every = self.checkpoint_every.or(checkpointing.every);
        checkpointing.seconds = self.checkpoint_seconds.or(checkpointing.seconds);
        set(&mut checkpointing.keep, self.keep);
    }
}
