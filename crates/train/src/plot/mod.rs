//! Plots of runs, and of two formulas of the paper "Attention Is All You Need", as SVG and PNG
//! files.

mod average;
mod axis;
mod bitmap;
mod curves;
mod file;
mod font;
mod group;
mod heat_map;
mod legend;
mod lengths;
mod line_chart;
mod lines;
mod paper;
mod run;
mod run_plot;
mod series;
mod style;

pub mod attention;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use training::run::layout::PICTURES;

pub use file::Plot;
pub use heat_map::{AttentionMaps, HeadMap};
pub use lines::CurveOptions;
pub use paper::{positional_encoding, warmup};
pub use run::{Progress, Run, differ_in_seed_only};
pub use run_plot::{RunPlot, readings};

/// Draws the default curves of a run as SVG files in the run's folder `pictures`. Curves without
/// data are skipped.
///
/// # Errors
///
/// The run cannot be read, or a file cannot be written.
pub fn draw_run(folder: &Path) -> Result<()> {
    let run = [Run::read(folder)?];
    let kinds = RunPlot::value_variants().iter();
    for kind in kinds.filter(|kind| kind.is_default()) {
        if let Some(chart) = kind.draw(&run, CurveOptions::default()) {
            chart.save(&folder.join(PICTURES).join(kind.name() + ".svg"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_drawn_into_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        let metrics = "{\"step\":1,\"loss\":3,\"learning_rate\":0.1}\n{\"step\":2,\"loss\":2,\"lea";
        let run = run::tests::run(parent.path(), "mine", "rotary", metrics);
        let pictures = run.folder.join(PICTURES);
        // In the second pass, the files are overwritten.
        for _ in 0..2 {
            draw_run(&run.folder).unwrap();
            let files = std::fs::read_dir(&pictures).unwrap();
            let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["learning_rate.svg", "loss.svg"]);
        }
        assert!(draw_run(parent.path()).is_err());
    }
}
