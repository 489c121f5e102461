//! Flags of `plot`.

use std::path::PathBuf;

use clap::Args;

use training::error::UsageError;

use super::check::needs;
use super::run_folder::run_folder;
use crate::plot::{Progress, RunPlot};
use training::run::layout::PICTURES;

/// Flags of `plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Folder of a run, or `latest`; several runs are drawn in the same plots
    #[arg(value_name = "RUN", required = true, value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// Draw only these plots [default: all that the runs have data for]
    #[arg(long, value_name = "PLOT,...", value_delimiter = ',')]
    pub only: Vec<RunPlot>,
    /// Horizontal axis of the curves
    #[arg(long, value_name = "AXIS", default_value = "steps")]
    pub x: Progress,
    /// Source whose attention is drawn, such as "3 1 4" [default: among the first 8 sources of the
    /// test split (text: validation), the longest that has at most 32 tokens, else the shortest]
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Folder of the plots [default: RUN/pictures, or pictures for several runs]
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Backend and device that compute the attention, `NAME` or `NAME:INDEX` [default: see `train
    /// backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}

impl PlotArgs {
    /// Checks that the flags can be combined.
    ///
    /// # Errors
    ///
    /// The first flag that cannot be combined with the others.
    pub fn check(&self) -> Result<(), UsageError> {
        let has_attention = self.wants(RunPlot::Attention);
        let only = (has_attention && !self.only.is_empty()).then_some("attention");
        for (is_met, what) in [
            (has_attention, "attention among --only"),
            (self.runs.len() == 1, "a single RUN"),
        ] {
            needs("--source", self.source.as_ref(), what, is_met)?;
            needs("--only", only, what, is_met)?;
        }
        Ok(())
    }

    /// Returns whether to draw a plot.
    pub fn wants(&self, plot: RunPlot) -> bool {
        self.only.is_empty() || self.only.contains(&plot)
    }

    /// Returns the folder that the plots are written to.
    pub fn folder(&self) -> PathBuf {
        match (&self.output, &self.runs[..]) {
            (Some(folder), _) => folder.clone(),
            (None, [run]) => run.join(PICTURES),
            (None, _) => PICTURES.into(),
        }
    }
}
