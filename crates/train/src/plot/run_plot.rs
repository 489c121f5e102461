//! The plots that a run can have, and the curves of each.

use clap::ValueEnum;

use super::axis::Axis;
use super::run::Run;
use super::series::Point;
use training::evaluation::LengthScore;

/// A plot of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunPlot {
    /// Training and validation loss
    Loss,
    /// Perplexity: the exponential of the validation loss, and of a training loss without label
    /// smoothing
    Perplexity,
    /// Token accuracy and exact match on the validation split
    Accuracy,
    /// BLEU and chrF on the validation split, of --task text
    Bleu,
    /// Learning rate
    LearningRate,
    /// Global norm of the gradient before clipping
    GradientNorm,
    /// Target tokens per second of training
    Throughput,
    /// Exact match by length, if the run has a lengths.json
    Lengths,
    /// Attention weights of every layer and head, of one run
    Attention,
}

/// A curve of a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Name of the field in `metrics.jsonl` or `lengths.json`.
    pub field: &'static str,
    /// Legend text.
    pub label: &'static str,
    /// Whether the field has a value for every step. Fields of evaluations and of lengths do not.
    pub is_per_step: bool,
    /// Whether values of neighbouring steps differ by chance. If so, the running mean of a long
    /// curve is drawn.
    pub is_noisy: bool,
}

impl Curve {
    /// Returns the noun for the points of the curve in a legend: `steps`, or `readings` for the
    /// throughput, which can be measured once for several steps.
    pub fn unit(&self) -> &'static str {
        if *self == SPEED { "readings" } else { "steps" }
    }

    const fn evaluated(field: &'static str, label: &'static str) -> Self {
        Self {
            field,
            label,
            is_per_step: false,
            is_noisy: false,
        }
    }

    const fn per_step(field: &'static str, label: &'static str, is_noisy: bool) -> Self {
        Self {
            field,
            label,
            is_per_step: true,
            is_noisy,
        }
    }
}

const TRAIN: Curve = Curve::per_step("loss", "training", true);
const VALID: Curve = Curve::evaluated("valid_loss", "validation");
const TOKENS: Curve = Curve::evaluated("token_accuracy", "token accuracy (teacher forcing)");
const EXACT: Curve = Curve::evaluated("exact_match", "exact match (whole sequences)");
const CHRF: Curve = Curve::evaluated("chrf", "chrF");
const BLEU: Curve = Curve::evaluated("bleu", "BLEU");
const RATE: Curve = Curve::per_step("learning_rate", "learning rate", false);
const NORM: Curve = Curve::per_step("gradient_norm", "gradient norm", true);
const SPEED: Curve = Curve::per_step("tokens_per_second", "throughput", true);

/// The vertical axis of losses, perplexities and gradient norms is logarithmic if the largest value
/// is at least this many times the median.
///
/// On a linear axis, half of the values would then lie in the lowest fifth.
const LOG_RATIO: f64 = 5.0;

impl RunPlot {
    /// Returns the name of the file without extension, such as `learning_rate`. The files of
    /// attention maps have other names.
    pub fn name(self) -> String {
        let name = self.to_possible_value().expect("no plot is skipped");
        name.get_name().replace('-', "_")
    }

    /// Returns whether the plot is drawn by default. Perplexity is not, because it shows the same
    /// data as the loss.
    pub fn is_default(self) -> bool {
        self != Self::Perplexity
    }

    /// Returns whether `runs` should have data for the plot. If they have none, the user is told
    /// even without `--only`.
    ///
    /// Only runs on texts have BLEU, only the other runs have scores by length, and runs of earlier
    /// versions of this program have no throughput.
    pub fn is_expected(self, runs: &[Run]) -> bool {
        match self {
            Self::Bleu | Self::Throughput => false,
            Self::Lengths => !runs.iter().all(Run::is_of_texts),
            _ => true,
        }
    }

    /// Returns the title, and the curves in drawing order. The last curve is the most important.
    /// Attention has no curves.
    pub fn curves(self) -> (&'static str, &'static [Curve]) {
        match self {
            Self::Loss => ("Loss", &[TRAIN, VALID]),
            Self::Perplexity => ("Perplexity", &[TRAIN, VALID]),
            Self::Accuracy => ("Accuracy on the validation split", &[TOKENS, EXACT]),
            Self::Bleu => ("Translation of the validation split", &[CHRF, BLEU]),
            Self::LearningRate => ("Learning rate", &[RATE]),
            Self::GradientNorm => ("Gradient norm", &[NORM]),
            Self::Throughput => ("Throughput", &[SPEED]),
            Self::Lengths => ("Exact match by length", &[TOKENS, EXACT]),
            Self::Attention => ("Attention", &[]),
        }
    }

    /// Returns the values of a curve by step or by length; empty without data.
    ///
    /// With label smoothing, the smallest possible training loss is above 0. If this minimum is
    /// known, it is subtracted from the training loss, so that the loss can be compared with the
    /// validation loss, whose smallest possible value is 0.
    ///
    /// If training has label smoothing, the curve of its perplexity is empty, because the
    /// exponential of a smoothed loss is not a perplexity.
    pub fn points(self, run: &Run, curve: Curve) -> Vec<Point> {
        if self == Self::Lengths {
            let value = |score: &LengthScore| match curve.field {
                "exact_match" => score.exact_match,
                _ => score.token_accuracy,
            };
            let point = |score: &LengthScore| Some((score.length as f64, value(score)?));
            return run.lengths.iter().flatten().filter_map(point).collect();
        }
        if curve == SPEED {
            return readings(run.metric(curve.field));
        }
        let points = run.metric(curve.field).iter().copied();
        let floor = if curve == TRAIN {
            run.loss_floor()
        } else {
            None
        };
        let floor = floor.unwrap_or(0.0);
        match self {
            Self::Perplexity if curve == TRAIN && run.label_smoothing() > 0.0 => Vec::new(),
            Self::Perplexity => points.map(|(step, loss)| (step, loss.exp())).collect(),
            _ => points.map(|(step, value)| (step, value - floor)).collect(),
        }
    }

    /// Returns the vertical axis for a plot of these values.
    pub fn y_axis(self, values: &[f64]) -> Axis {
        let positive = values
            .iter()
            .filter(|value| value.is_finite() && **value > 0.0);
        let mut positive: Vec<f64> = positive.copied().collect();
        positive.sort_by(f64::total_cmp);
        let largest = positive.last().copied().unwrap_or(0.0);
        let label = match self {
            Self::Loss => "cross-entropy (nats per token)",
            Self::Perplexity => "perplexity (per token)",
            Self::LearningRate => return Axis::from_zero("learning rate", largest),
            Self::GradientNorm => "global gradient norm",
            Self::Throughput => return Axis::from_zero("target tokens per second", largest),
            Self::Bleu => return Axis::linear("BLEU, chrF (0 to 100)", 0.0..100.0),
            _ => return Axis::linear("accuracy", 0.0..1.0),
        };
        match positive.get(positive.len() / 2) {
            Some(&median) if largest >= LOG_RATIO * median => {
                Axis::log(label, positive[0].max(largest * 1e-9), largest)
            }
            _ => Axis::from_zero(label, largest),
        }
    }
}

/// Returns the last point of each group of consecutive points with equal values.
///
/// The throughput is measured whenever losses are read from the device, and all steps since the
/// previous reading have the same value.
pub fn readings<S: Copy>(points: &[(S, f64)]) -> Vec<(S, f64)> {
    let ranges = points.chunk_by(|a, b| a.1 == b.1);
    ranges.filter_map(|range| range.last().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throughput_has_one_point_for_each_reading() {
        let points: Vec<Point> = (1..=30)
            .map(|step| (f64::from(step), f64::from((step - 1) / 10)))
            .collect();
        assert_eq!(readings(&points), [(10.0, 0.0), (20.0, 1.0), (30.0, 2.0)]);
        assert_eq!(readings::<u64>(&[]), []);
    }

    #[test]
    fn losses_that_are_flat_in_a_linear_plot_have_a_log_axis_and_others_begin_at_0() {
        let axis = |loss: &dyn Fn(f64) -> f64| {
            let values: Vec<f64> = (1..=100).map(|step| loss(f64::from(step))).collect();
            RunPlot::Loss.y_axis(&values)
        };
        let first = |axis: &Axis| axis.tick_label(axis.ticks()[0]);
        assert_eq!(first(&axis(&|step| 4.0 * 0.5f64.powf(step))), "1e-10");
        assert_eq!(first(&axis(&|step| 4.0 / step)), "0.02");
        assert_eq!(first(&axis(&|step| 4.0 - step / 30.0)), "0.0");
        assert_eq!(first(&axis(&|_| 0.0)), "0.0");
        assert_eq!(RunPlot::Loss.y_axis(&[]).range, 0.0..1.0);
    }
}
