//! Learning rates as functions of the step (Vaswani et al. 2017, section 5.3).

use serde::{Deserialize, Serialize};

use crate::setting::{choice, choices, positive, settings, whole};

choices! {
    /// Shape of the learning-rate decay after the linear warm-up.
    pub enum ScheduleKind {
        /// With the inverse square root of the step, as in the paper.
        ///
        /// If the schedule's `learning_rate` is `None`, the rate of a step is
        /// `factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5)`.
        Noam = "noam",
        /// Linearly, to 0 after the last step.
        Linear = "linear",
        /// Along half a cosine, to 0 after the last step (Loshchilov and Hutter 2017).
        Cosine = "cosine",
    }
}

settings! {
    /// The learning rate as a function of the step, counted from 1.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Schedule in "optimization.schedule." {
        /// How the learning rate falls after its warm-up.
        kind: ScheduleKind = ScheduleKind::Linear, choice(ScheduleKind::choices).flag("--schedule", "SHAPE").may_change();
        /// Peak learning rate, at the end of the warm-up; without it, the factor sets it.
        learning_rate: Option<f64> = None, positive().flag("--learning-rate", "RATE").may_change();
        /// Factor of the paper's formula: the peak is factor / sqrt(d_model * warmup).
        factor: f64 = 1.0, positive().replaced_by(Self::learning_rate).may_change();
        /// Steps in which the learning rate rises to its peak.
        warmup: usize = 100, whole(1, u64::MAX).flag("--warmup", "N").may_change();
    }
}

impl Schedule {
    /// Returns the learning rate of step `step`, counted from 1. `steps` is the total number of
    /// steps, and `d_model` is the width of the model.
    ///
    /// ```
    /// use training::config::{Schedule, ScheduleKind};
    ///
    /// let mut schedule = Schedule {
    ///     kind: ScheduleKind::Noam,
    ///     warmup: 4000,
    ///     ..Schedule::DEFAULT
    /// };
    /// let peak = schedule.rate(4000, 100_000, 512);
    /// assert!((peak - 6.987_712e-4).abs() < 1e-9);
    /// assert!((schedule.rate(16_000, 100_000, 512) - peak / 2.0).abs() < 1e-9);
    ///
    /// schedule.learning_rate = Some(1e-3);
    /// assert_eq!(schedule.rate(1000, 100_000, 512), 1e-3 / 4.0);
    /// ```
    pub fn rate(self, step: usize, steps: usize, d_model: usize) -> f64 {
        let (s, w) = (step as f64, self.warmup as f64);
        let peak = self.peak(d_model);
        // `left` falls from 1 at the end of the warm-up to almost 0 at the last step.
        let left = (steps as f64 + 1.0 - s) / (steps as f64 + 1.0 - w).max(1.0);
        match self.kind {
            // Equation 3 of the paper, as a multiple of the peak.
            ScheduleKind::Noam => peak * (w / s).sqrt().min(s / w),
            ScheduleKind::Linear => peak * (s / w).min(left),
            ScheduleKind::Cosine if s < w => peak * s / w,
            ScheduleKind::Cosine => {
                let progress = 1.0 - left.clamp(0.0, 1.0);
                peak * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }

    /// Returns the largest learning rate, which is the one at the end of the warm-up.
    pub fn peak(self, d_model: usize) -> f64 {
        let of_factor = self.factor / (d_model as f64 * self.warmup as f64).sqrt();
        self.learning_rate.unwrap_or(of_factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind, factor: f64, warmup: usize) -> Schedule {
        Schedule {
            kind,
            factor,
            warmup,
            ..Schedule::DEFAULT
        }
    }

    #[test]
    fn linear_rises_to_noams_peak_and_falls_to_almost_nothing() {
        let (factor, warmup) = (2.0, 100);
        let noam = schedule(ScheduleKind::Noam, factor, warmup);
        let linear = schedule(ScheduleKind::Linear, factor, warmup);
        let rate = |step| linear.rate(step, 1000, 64);
        assert!((rate(100) - noam.rate(100, 1000, 64)).abs() < 1e-12);
        assert!((rate(50) - rate(100) / 2.0).abs() < 1e-12);
        assert!(rate(1000) > 0.0 && rate(1000) < rate(100) / 900.0);
    }

    #[test]
    fn cosine_falls_slowly_at_first_and_at_last() {
        let [linear, cosine] =
            [ScheduleKind::Linear, ScheduleKind::Cosine].map(|kind| schedule(kind, 2.0, 100));
        let rate = |step| cosine.rate(step, 1000, 64);
        let peak = linear.rate(100, 1000, 64);
        assert!((rate(50) - peak / 2.0).abs() < 1e-12);
        assert!((rate(100) - peak).abs() < 1e-12);
        // The learning rate is half the peak at 550.5, midway between these two steps.
        assert!((rate(550) + rate(551) - peak).abs() < 1e-9);
        assert!(rate(150) > linear.rate(150, 1000, 64));
        assert!(rate(950) < linear.rate(950, 1000, 64));
        assert!(rate(1000) > 0.0 && rate(1000) < peak / 1e4);
    }
}
