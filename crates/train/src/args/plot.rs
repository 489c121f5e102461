//! Flags of `plot`.

use std::path::PathBuf;

use clap::Args;

use training::error::UsageError;

use super::check::needs;
use crate::plot::RunPlot;

/// Flags of `plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Folder of a run; the plots of several runs have a line for each run
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Draw only these plots of the run [default: all that it has data for]
    #[arg(long, value_name = "PLOT,...", value_delimiter = ',')]
    pub only: Vec<RunPlot>,
    /// Source whose attention is drawn, such as "3 1 4" [default: the longest of the first 8 of the test split with at most 32 tokens]
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Draw dimensions 4 to 7 of a sinusoidal positional encoding with 20 dimensions; needs no run
    #[arg(long)]
    pub positional_encoding: bool,
    /// Draw the paper's learning rate for two model widths and two warm-ups; needs no run
    #[arg(long)]
    pub warmup: bool,
    /// Write a PNG file beside each SVG file
    #[arg(long)]
    pub png: bool,
    /// Folder of the plots [default: RUN/pictures, or pictures for several runs or none]
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
        let has_run = !self.runs.is_empty();
        if !has_run && !self.positional_encoding && !self.warmup {
            let expected = "is missing: name the folder of a run, such as runs/copy-1, or give \
                            --positional-encoding or --warmup";
            return Err(UsageError::new("RUN", "", expected));
        }
        let (source, single) = (self.source.as_ref(), self.runs.len() <= 1);
        let only = self.only.first().map(|plot| plot.name().replace('_', "-"));
        let has_attention = self.wants(RunPlot::Attention);
        let attention = (has_attention && only.is_some()).then_some("attention");
        needs("--only", only, "a RUN", has_run)?;
        needs("--source", source, "a RUN", has_run)?;
        needs("--source", source, "attention among --only", has_attention)?;
        needs("--source", source, "a single RUN", single)?;
        needs("--only", attention, "a single RUN", single)?;
        Ok(())
    }

    /// Returns whether a plot of the runs was asked for.
    pub fn wants(&self, plot: RunPlot) -> bool {
        self.only.is_empty() || self.only.contains(&plot)
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> PathBuf {
        match (&self.output, &self.runs[..]) {
            (Some(folder), _) => folder.clone(),
            (None, [run]) => run.join("pictures"),
            (None, _) => "pictures".into(),
        }
    }
}
