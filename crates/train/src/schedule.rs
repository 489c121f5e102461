//! Learning rates as functions of the step.

use serde::{Deserialize, Serialize};

/// How the learning rate goes, from step 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Schedule {
    /// The paper's (section 5.3, equation 3): `factor * D^-0.5 * min(step^-0.5, step * warmup^-1.5)`.
    Noam {
        /// Scale of the whole.
        factor: f64,
        /// Steps of linear rise.
        warmup: usize,
    },
    /// The same rise to the same peak, then linearly down to 0 at the last step.
    Linear {
        /// Scale of the whole.
        factor: f64,
        /// Steps of linear rise.
        warmup: usize,
    },
    /// The same rise to the same peak, then down to 0 at the last step along half a cosine
    /// (Loshchilov and Hutter 2017, without restarts).
    Cosine {
        /// Scale of the whole.
        factor: f64,
        /// Steps of linear rise.
        warmup: usize,
    },
}

impl Schedule {
    /// Scale of the whole, and steps of linear rise.
    pub fn parts(self) -> (f64, usize) {
        let (Self::Noam { factor, warmup }
        | Self::Linear { factor, warmup }
        | Self::Cosine { factor, warmup }) = self;
        (factor, warmup)
    }

    /// The learning rate of one step of `steps`, counted from 1.
    pub fn learning_rate(self, step: usize, steps: usize, d_model: usize) -> f64 {
        let scale = (d_model as f64).powf(-0.5);
        let (factor, warmup) = self.parts();
        let (s, w) = (step as f64, warmup as f64);
        let peak = factor * scale * w.powf(-0.5);
        // From 1 at the end of the rise to almost 0 at the last step.
        let left = (steps as f64 + 1.0 - s) / (steps as f64 + 1.0 - w).max(1.0);
        match self {
            Self::Noam { .. } => factor * scale * s.powf(-0.5).min(s * w.powf(-1.5)),
            Self::Linear { .. } => peak * (s / w).min(left),
            Self::Cosine { .. } if s < w => peak * s / w,
            Self::Cosine { .. } => {
                let progress = 1.0 - left.clamp(0.0, 1.0);
                peak * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noam_is_the_papers() {
        let noam = Schedule::Noam {
            factor: 1.0,
            warmup: 4000,
        };
        // 512^-0.5 * 4000^-0.5, the peak of the paper's figures.
        let peak = noam.learning_rate(4000, 0, 512);
        assert!((peak - 6.987_712e-4).abs() < 1e-9, "{peak}");
        assert!((noam.learning_rate(1000, 0, 512) - peak / 4.0).abs() < 1e-9);
        assert!((noam.learning_rate(16_000, 0, 512) - peak / 2.0).abs() < 1e-9);
    }

    #[test]
    fn linear_rises_to_noams_peak_and_falls_to_almost_nothing() {
        let (factor, warmup) = (2.0, 100);
        let noam = Schedule::Noam { factor, warmup };
        let linear = Schedule::Linear { factor, warmup };
        let rate = |step| linear.learning_rate(step, 1000, 64);
        assert!((rate(100) - noam.learning_rate(100, 1000, 64)).abs() < 1e-12);
        assert!((rate(50) - rate(100) / 2.0).abs() < 1e-12);
        assert!(rate(1000) > 0.0 && rate(1000) < rate(100) / 900.0);
    }

    #[test]
    fn cosine_falls_slowly_at_first_and_at_last() {
        let cosine = Schedule::Cosine {
            factor: 2.0,
            warmup: 100,
        };
        let linear = Schedule::Linear {
            factor: 2.0,
            warmup: 100,
        };
        let rate = |step| cosine.learning_rate(step, 1000, 64);
        let peak = linear.learning_rate(100, 1000, 64);
        assert!((rate(50) - peak / 2.0).abs() < 1e-12);
        assert!((rate(100) - peak).abs() < 1e-12);
        // Step 550.5 is in the middle of the fall.
        assert!((rate(550) + rate(551) - peak).abs() < 1e-9);
        assert!(rate(150) > linear.learning_rate(150, 1000, 64));
        assert!(rate(950) < linear.learning_rate(950, 1000, 64));
        assert!(rate(1000) > 0.0 && rate(1000) < peak / 1e4);
    }
}
