//! Plots of runs as SVG files, and in the report.

mod average;
pub mod axis;
mod charts;
mod file;
mod heat_map;
mod line_chart;
mod style;

pub mod attention;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use training::run::RunData;
use training::run::layout::PICTURES;

pub use average::{mean_and_deviation, smoothed};
pub use charts::{Progress, RunPlot};
pub use file::{MARK, Plot};
pub use heat_map::AttentionMaps;
pub use style::SERIES;

/// Draws the default curves of a run as SVG files in the run's folder `pictures`. Curves without
/// data are skipped.
///
/// # Errors
///
/// The run cannot be read, or a file cannot be written.
pub fn draw_run(folder: &Path) -> Result<()> {
    let run = [RunData::read(folder)?];
    for &kind in RunPlot::value_variants() {
        if let Some(chart) = kind.draw(&run, Progress::Steps) {
            chart.save(&folder.join(PICTURES), &kind.file_name())?;
        }
    }
    Ok(())
}
