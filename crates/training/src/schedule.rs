//! Learning rates as functions of the step (Vaswani et al. 2017, section 5.3).

use serde::{Deserialize, Serialize};

use crate::checks::{check_count, check_positive};
use crate::error::UsageError;

/// Shape of the learning-rate decay after the linear warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// The learning rate falls with the inverse square root of the step (Vaswani et al. 2017,
    /// equation 3). If the schedule's `learning_rate` is `None`, the rate of a step is
    /// `factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5)`.
    Noam,
    /// The learning rate falls linearly to almost 0 at the last step. The warm-up and the peak are
    /// those of `Noam`.
    Linear,
    /// The learning rate falls along half a cosine to almost 0 at the last step (Loshchilov and
    /// Hutter 2017, without restarts). The warm-up and the peak are those of `Noam`.
    Cosine,
}

/// The learning rate as a function of the step, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Shape of the learning-rate decay after the linear warm-up.
    pub kind: ScheduleKind,
    /// Largest learning rate, which is the one at the end of the warm-up; `None` if `factor` sets
    /// it.
    pub learning_rate: Option<f64>,
    /// Factor of the paper's formula. The largest learning rate is
    /// `factor / sqrt(d_model * warmup)`, unless `learning_rate` is set.
    pub factor: f64,
    /// Number of warm-up steps, in which the learning rate rises linearly. If training has fewer
    /// steps, the learning rate does not reach its peak.
    pub warmup: usize,
}

impl Schedule {
    /// Returns a schedule whose learning rate falls with the inverse square root of the step.
    pub const fn noam(factor: f64, warmup: usize) -> Self {
        Self {
            kind: ScheduleKind::Noam,
            learning_rate: None,
            factor,
            warmup,
        }
    }

    /// Returns a schedule whose learning rate falls linearly after the warm-up.
    pub const fn linear(factor: f64, warmup: usize) -> Self {
        Self {
            kind: ScheduleKind::Linear,
            ..Self::noam(factor, warmup)
        }
    }

    /// Returns the learning rate of step `step`, counted from 1. `steps` is the total number of
    /// steps, and `d_model` is the width of the model.
    ///
    /// ```
    /// use training::config::Schedule;
    ///
    /// let schedule = Schedule::noam(1.0, 4000);
    /// let peak = schedule.learning_rate(4000, 100_000, 512);
    /// assert!((peak - 6.99e-4).abs() < 1e-6);
    ///
    /// let schedule = Schedule { learning_rate: Some(1e-3), ..schedule };
    /// assert_eq!(schedule.learning_rate(1000, 100_000, 512), 1e-3 / 4.0);
    /// ```
    pub fn learning_rate(self, step: usize, steps: usize, d_model: usize) -> f64 {
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

    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let rate = self.learning_rate.unwrap_or(1.0);
        check_positive("optimization.schedule.learning_rate", rate)?;
        check_positive("optimization.schedule.factor", self.factor)?;
        check_count("optimization.schedule.warmup", self.warmup, usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noam_follows_the_papers_formula() {
        let noam = Schedule::noam(1.0, 4000);
        // The expected peak is 512^-0.5 * 4000^-0.5, for the paper's `d_model` and warm-up.
        let peak = noam.learning_rate(4000, 0, 512);
        assert!((peak - 6.987_712e-4).abs() < 1e-9, "{peak}");
        assert!((noam.learning_rate(1000, 0, 512) - peak / 4.0).abs() < 1e-9);
        assert!((noam.learning_rate(16_000, 0, 512) - peak / 2.0).abs() < 1e-9);
    }

    #[test]
    fn linear_rises_to_noams_peak_and_falls_to_almost_nothing() {
        let (factor, warmup) = (2.0, 100);
        let noam = Schedule::noam(factor, warmup);
        let linear = Schedule::linear(factor, warmup);
        let rate = |step| linear.learning_rate(step, 1000, 64);
        assert!((rate(100) - noam.learning_rate(100, 1000, 64)).abs() < 1e-12);
        assert!((rate(50) - rate(100) / 2.0).abs() < 1e-12);
        assert!(rate(1000) > 0.0 && rate(1000) < rate(100) / 900.0);
    }

    #[test]
    fn cosine_falls_slowly_at_first_and_at_last() {
        let linear = Schedule::linear(2.0, 100);
        let cosine = Schedule {
            kind: ScheduleKind::Cosine,
            ..linear
        };
        let rate = |step| cosine.learning_rate(step, 1000, 64);
        let peak = linear.learning_rate(100, 1000, 64);
        assert!((rate(50) - peak / 2.0).abs() < 1e-12);
        assert!((rate(100) - peak).abs() < 1e-12);
        // The learning rate is half the peak at 550.5, midway between these two steps.
        assert!((rate(550) + rate(551) - peak).abs() < 1e-9);
        assert!(rate(150) > linear.learning_rate(150, 1000, 64));
        assert!(rate(950) < linear.learning_rate(950, 1000, 64));
        assert!(rate(1000) > 0.0 && rate(1000) < peak / 1e4);
    }
}
