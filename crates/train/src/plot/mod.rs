//! Pictures of runs and of what the paper says, as SVG and PNG files.

mod axis;
mod drawing;
mod file;
mod font;
mod heat_map;
mod line_chart;
mod marker;
mod metrics;
mod positions;
mod style;
mod warmup;

pub mod attention;
pub mod curves;
pub mod lengths;
pub mod run;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub use axis::Axis;
pub use drawing::{Anchor, Color, Drawing, Mark, Point};
pub use file::Format;
pub use line_chart::{Band, LineChart, Series};
pub use marker::Marker;
pub use metrics::Metrics;
pub use positions::positional_encoding;
pub use run::Run;
pub use style::series_color;
pub use warmup::warmup;

/// A picture of what runs have written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Loss by step.
    Loss,
    /// Token accuracy and exact match by step.
    Accuracy,
    /// BLEU and chrF by step.
    Bleu,
    /// Learning rate by step.
    LearningRate,
    /// Exact match by length.
    Lengths,
}

impl Curve {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Loss,
        Self::Accuracy,
        Self::Bleu,
        Self::LearningRate,
        Self::Lengths,
    ];

    /// The name of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Accuracy => "accuracy",
            Self::Bleu => "bleu",
            Self::LearningRate => "learning_rate",
            Self::Lengths => "lengths",
        }
    }

    /// Draws it, of one run or several; nothing if they have no data for it.
    pub fn draw(self, runs: &[Run]) -> Option<Drawing> {
        match self {
            Self::Loss => curves::loss(runs),
            Self::Accuracy => curves::accuracy(runs),
            Self::Bleu => curves::bleu(runs),
            Self::LearningRate => curves::learning_rate(runs),
            Self::Lengths => lengths::draw(runs),
        }
    }
}

/// Draws every curve that a run has data for, into `pictures/` in its folder, and returns the
/// files.
///
/// # Errors
///
/// A folder that is no run's or is damaged, or a picture that cannot be written.
pub fn draw_run(folder: &Path, format: Format) -> Result<Vec<PathBuf>> {
    let run = [Run::read(folder)?];
    let mut paths = Vec::new();
    for curve in Curve::ALL {
        if let Some(drawing) = curve.draw(&run) {
            paths.extend(drawing.save(&folder.join("pictures"), curve.name(), format)?);
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
        let paths = draw_run(&run.folder, Format::Svg).unwrap();
        assert_eq!(
            paths,
            [
                pictures.join("loss.svg"),
                pictures.join("learning_rate.svg")
            ]
        );
        // Again, and with more.
        let paths = draw_run(&run.folder, Format::SvgAndPng).unwrap();
        assert_eq!(paths.len(), 4);
        assert_eq!(std::fs::read_dir(pictures).unwrap().count(), 4);
        assert!(draw_run(parent.path(), Format::Svg).is_err());
    }
}
