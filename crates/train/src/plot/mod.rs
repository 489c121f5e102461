//! Plots of runs, and of two figures of the paper, as SVG and PNG files.

mod axis;
mod bitmap;
mod curves;
mod file;
mod font;
mod heat_map;
mod line_chart;
mod paper;
mod run;
mod style;

pub mod attention;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;

pub use axis::{Axis, Spacing};
pub use curves::RunPlot;
pub use file::Plot;
pub use line_chart::{Band, LineChart, Point, Series};
pub use paper::{positional_encoding, warmup};
pub use run::Run;

/// Draws every curve that a run has data for into `pictures/` in its folder as an SVG file, and
/// returns the paths of the files.
///
/// # Errors
///
/// The folder is not a run's or is damaged, or a file cannot be written.
pub fn draw_run(folder: &Path) -> Result<Vec<PathBuf>> {
    let run = [Run::read(folder)?];
    let mut paths = Vec::new();
    for kind in RunPlot::value_variants() {
        if let Some(chart) = kind.draw(&run) {
            let path = folder.join("pictures").join(kind.name() + ".svg");
            chart.save(&path)?;
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_drawn_into_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        let metrics = "{\"step\":1,\"loss\":3,\"learning_rate\":0.1}\n{\"step\":2,\"loss\":2,\"lea";
        let run = run::tests::run(parent.path(), "mine", "rotary", metrics);
        let pictures = run.folder.join("pictures");
        // Again, over the files that are there.
        for _ in 0..2 {
            assert_eq!(
                draw_run(&run.folder).unwrap(),
                [
                    pictures.join("loss.svg"),
                    pictures.join("learning_rate.svg")
                ]
            );
            assert_eq!(std::fs::read_dir(&pictures).unwrap().count(), 2);
        }
        assert!(draw_run(parent.path()).is_err());
    }
}
