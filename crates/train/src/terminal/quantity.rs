//! The quantities of a run that have charts.

use super::chart::{Chart, Curve, Look};
use super::live_run::{LiveRun, score};

/// Quantity of a run that a chart shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Loss,
    Score,
    TokenAccuracy,
    LearningRate,
    GradientNorm,
    Speed,
}

impl Quantity {
    /// All quantities, in the order in which the Tab key shows them.
    pub(super) const ALL: [Self; 6] = [
        Self::Loss,
        Self::Score,
        Self::TokenAccuracy,
        Self::LearningRate,
        Self::GradientNorm,
        Self::Speed,
    ];

    /// Returns the chart of the quantity. `is_log` selects a logarithmic scale if the quantity
    /// allows one.
    pub(super) fn chart(self, run: &LiveRun, is_log: bool, has_color: bool) -> Chart<'_> {
        let curves = &run.curves;
        let (title, shown, is_log, range) = match self {
            Self::Loss => {
                let train = if run.is_smoothed {
                    "train, smoothed labels"
                } else {
                    "train"
                };
                let train = curve(train, curves.loss.points(), Look::Line);
                let valid = curve("validation", curves.valid_loss.points(), Look::Dots);
                ("loss", vec![train, valid], is_log, None)
            }
            Self::Score => {
                let name = run.evaluation.as_ref().and_then(score);
                let name = name.map_or("score", |(name, _)| name);
                let range = if name == "exact match" {
                    [0.0, 1.0]
                } else {
                    [0.0; 2]
                };
                let dots = curve("validation", curves.score.points(), Look::Dots);
                (name, vec![dots], false, Some(range))
            }
            Self::TokenAccuracy => {
                let dots = curve("validation", curves.token_accuracy.points(), Look::Dots);
                ("token accuracy", vec![dots], false, Some([0.0, 1.0]))
            }
            Self::LearningRate => {
                let line = curve("", curves.learning_rate.points(), Look::Line);
                ("learning rate", vec![line], false, Some([0.0; 2]))
            }
            Self::GradientNorm => {
                let line = curve("", curves.gradient_norm.points(), Look::Line);
                ("gradient norm", vec![line], is_log, None)
            }
            Self::Speed => {
                let line = curve("", curves.speed.points(), Look::Line);
                (
                    "target tokens per second",
                    vec![line],
                    false,
                    Some([0.0; 2]),
                )
            }
        };
        Chart {
            title: title.into(),
            curves: shown,
            is_log,
            steps: [run.first + 1, run.step.max(run.first + 1)].map(|step| step as f64),
            range,
            has_color,
            empty: match self {
                Self::Score | Self::TokenAccuracy => "no evaluation yet",
                _ => "no value yet",
            },
        }
    }
}

fn curve<'a>(name: &'static str, points: &'a [(f64, f64)], look: Look) -> Curve<'a> {
    Curve { name, points, look }
}
