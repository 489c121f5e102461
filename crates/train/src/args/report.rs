//! Flags of `report`.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use training::error::UsageError;
use training::run::checkpoint::CheckpointSelector;

use super::backend::BackendArgs;
use super::check::reject;
use super::parse::whole_number;
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
    #[arg(long, value_name = "N", default_value = "24", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub examples: usize,
    /// Checkpoint that decodes the examples: best for the run's model, which the best evaluation
    /// chose, last, the number of a step, or average:K for the mean of the last K
    #[arg(long, value_name = "WHICH", default_value = "best")]
    pub checkpoint: CheckpointSelector,
    #[command(flatten)]
    pub backend: BackendArgs,
}

/// Maximum value of `--examples`.
const EXAMPLES: usize = 1000;

impl ReportArgs {
    /// Checks the number of examples, and that no run is given twice.
    ///
    /// # Errors
    ///
    /// A number that is too large, or a run that is given twice.
    pub fn check(&self) -> Result<(), UsageError> {
        let expected = format!("must be at most {EXAMPLES}");
        let too_many = (self.examples > EXAMPLES).then_some(self.examples);
        reject("--examples", too_many, &expected)?;
        let mut seen = HashSet::new();
        self.runs.iter().try_for_each(|run| {
            let whole = run.canonicalize().unwrap_or_else(|_| run.clone());
            let expected = "is given twice; name each run once";
            let repeated = (!seen.insert(whole)).then(|| run.display());
            reject("RUN", repeated, expected)
        })
    }

    /// Returns the path of the page.
    pub fn path(&self) -> PathBuf {
        match (&self.output, &self.runs[..]) {
            (Some(path), _) => path.clone(),
            (None, [run]) => run.join("report.html"),
            (None, _) => "report.html".into(),
        }
    }
}
