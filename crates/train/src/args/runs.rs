//! Flags of `runs` and `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::run_folder::run_folder;

/// Flags of `runs`.
#[derive(Clone, Debug, Args)]
pub struct RunsArgs {
    /// Folder whose runs are listed, or the folder of a single run
    #[arg(value_name = "DIR", default_value = "runs", value_parser = run_folder())]
    pub folder: PathBuf,
    /// Column that decides the order
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = Column::Changed)]
    pub sort: Column,
    /// Print one JSON object per run, with the settings that differ from the preset
    #[arg(long)]
    pub json: bool,
}

/// Column that decides the order of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// When training last changed the folder, the newest first
    Changed,
    /// Name of the folder; copy-2 comes before copy-10
    Name,
    /// Name of the task
    Task,
    /// Steps taken, the most first
    Steps,
    /// Best score, grouped by metric
    Best,
    /// Seconds of training, the most first
    Time,
    /// running, stopped, finished, diverged, failed, killed, in this order
    Status,
}

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Folders of two or more runs; those that differ only in the seed share a column
    #[arg(value_name = "RUN", required = true, num_args = 2.., value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
