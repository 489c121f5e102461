//! Flags of `report`.

use std::path::PathBuf;

use clap::Args;
use training::run::checkpoint::CheckpointSelector;

use super::parse::whole_within;
use super::run_folder::run_folder;

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Folder of a run, or `latest`; several runs are shown side by side
    #[arg(value_name = "RUN", required = true, value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// File of the page [default: RUN/report.html, or report.html for several runs]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Number of validation examples that the model decodes; the attention of some is shown; 0
    /// loads no model
    #[arg(long, value_name = "N", default_value = "24", allow_negative_numbers = true, value_parser = whole_within(0, 1000))]
    pub examples: usize,
    /// Checkpoint that decodes the examples: best for the run's model, which the best evaluation
    /// chose, last, the number of a step, or average:K for the mean of the last K
    #[arg(long, value_name = "WHICH", default_value = "best")]
    pub checkpoint: CheckpointSelector,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}

impl ReportArgs {
    /// Returns the path of the page.
    pub fn path(&self) -> PathBuf {
        match (&self.output, &self.runs[..]) {
            (Some(path), _) => path.clone(),
            (None, [run]) => run.join("report.html"),
            (None, _) => "report.html".into(),
        }
    }
}
