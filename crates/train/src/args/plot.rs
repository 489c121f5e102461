//! Flags of `plot`.

use std::path::PathBuf;

use clap::Args;

use training::error::UsageError;

use super::check::needs;
use super::run_folder::run_folder;
use crate::plot::attention::MapOptions;
use crate::plot::{CurveOptions, Progress, RunPlot};
use training::run::layout::PICTURES;

/// Flags of `plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Folder of a run, or `latest`; several runs are drawn in the same plots
    #[arg(value_name = "RUN", value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// Draw only these plots of the run [default: all that it has data for, except perplexity]
    #[arg(long, value_name = "PLOT,...", value_delimiter = ',')]
    pub only: Vec<RunPlot>,
    /// Horizontal axis of the curves [default: steps]
    #[arg(long, value_name = "AXIS")]
    pub x: Option<Progress>,
    /// Draw a line for every run [default: runs that differ only in their seed have one line, their
    /// mean, with an area of one standard deviation on either side]
    #[arg(long)]
    pub each_seed: bool,
    /// Source whose attention is drawn, such as "3 1 4" [default: among the first 8 sources of the
    /// test split (text: validation), the longest that has at most 32 tokens, else the shortest]
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Draw the attention of these layers only, such as 1,6 [default: all]
    #[arg(long, value_name = "LAYER,...", value_delimiter = ',')]
    pub layers: Vec<usize>,
    /// Draw the mean attention of the heads of each layer [default: every head]
    #[arg(long)]
    pub head_mean: bool,
    /// Draw dimensions 4 to 7 of a sinusoidal positional encoding with 20 dimensions; needs no run
    #[arg(long)]
    pub positional_encoding: bool,
    /// Draw the paper's learning rate for three pairs of model width and warm-up; needs no run
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
    /// Checks that there is something to plot, and that the flags can be combined.
    ///
    /// # Errors
    ///
    /// A missing RUN, or the first flag that cannot be combined with the others.
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
        needs("--x", self.x.map(Progress::name), "a RUN", has_run)?;
        needs(
            "--each-seed",
            self.each_seed.then_some(""),
            "a RUN",
            has_run,
        )?;
        let layers = self.layers.first();
        let head_mean = self.head_mean.then_some("");
        for (is_met, what) in [
            (has_run, "a RUN"),
            (has_attention, "attention among --only"),
            (single, "a single RUN"),
        ] {
            needs("--source", source, what, is_met)?;
            needs("--layers", layers, what, is_met)?;
            needs("--head-mean", head_mean, what, is_met)?;
        }
        needs("--only", attention, "a single RUN", single)?;
        Ok(())
    }

    /// Returns whether to draw a plot: `--only` names it or, without `--only`, it is one of the
    /// default plots.
    pub fn wants(&self, plot: RunPlot) -> bool {
        self.only.contains(&plot) || (self.only.is_empty() && plot.is_default())
    }

    /// Returns the options for drawing curves.
    pub fn curve_options(&self) -> CurveOptions {
        CurveOptions {
            progress: self.x.unwrap_or_default(),
            is_each_seed: self.each_seed,
        }
    }

    /// Returns the options that select the attention maps.
    pub fn map_options(&self) -> MapOptions {
        MapOptions {
            layers: self.layers.clone(),
            is_head_mean: self.head_mean,
        }
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
