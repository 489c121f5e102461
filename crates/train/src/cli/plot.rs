//! Flags of `plot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::search::needs;
use crate::error::UsageError;
use crate::plot::RunPlot;

/// Flags of `plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Folder of a run; of several, each picture has a line for each
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Draw only these pictures of the run [default: all that it has data for]
    #[arg(long, value_name = "PICTURE,...", value_delimiter = ',')]
    pub only: Vec<RunPlot>,
    /// Symbols whose attention is drawn, such as "3 1 4" [default: the longest of the first eight of the test split]
    #[arg(long, value_name = "SYMBOLS")]
    pub source: Option<String>,
    /// Draw dimensions 4 to 7 of a sinusoidal encoding of 20; needs no run
    #[arg(long)]
    pub positional_encoding: bool,
    /// Draw the learning rate of the paper for two widths and warm-ups; needs no run
    #[arg(long)]
    pub warmup: bool,
    /// Write a PNG file beside each SVG file
    #[arg(long)]
    pub png: bool,
    /// Folder of the pictures [default: RUN/pictures; without a run or of several, pictures]
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Backend and device that compute the attention, `NAME` or `NAME:INDEX` [default: see `train
    /// backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}

impl PlotArgs {
    /// Checks that the flags go together.
    ///
    /// # Errors
    ///
    /// The first flag that does not.
    pub fn check(&self) -> Result<(), UsageError> {
        let has_run = !self.runs.is_empty();
        if !has_run && !self.positional_encoding && !self.warmup {
            let expected = "is missing: name the folder of a run, such as runs/copy-1, or give \
                            --positional-encoding or --warmup";
            return Err(UsageError::new("RUN", "", expected));
        }
        let only = self
            .only
            .first()
            .and_then(|first| first.to_possible_value());
        needs(
            "--only",
            only.as_ref().map(|first| first.get_name()),
            "a RUN",
            has_run,
        )?;
        needs("--source", self.source.as_ref(), "a RUN", has_run)?;
        let source = self.source.as_ref();
        needs(
            "--source",
            source,
            "attention among --only",
            self.wants(RunPlot::Attention),
        )?;
        if self.runs.len() > 1 {
            needs("--source", source, "a single RUN", false)?;
            let attention = self
                .only
                .contains(&RunPlot::Attention)
                .then_some("attention");
            needs("--only", attention, "a single RUN", false)?;
        }
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
