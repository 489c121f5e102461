//! The loss scale of training in f16 (Micikevicius et al. 2018, section 3.2).

use serde::{Deserialize, Serialize};

/// Factor that the loss is multiplied by, so that small gradients do not underflow to 0 in f16.
///
/// The factor doubles after 2,000 successive steps with finite gradients. After a step with
/// gradients that are not finite, a factor above 1 halves, and the step does not update the
/// parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// Factor of the loss, a power of two.
    pub factor: f64,
    /// Number of steps since the factor changed.
    pub steps: usize,
}

/// Number of successive steps with finite gradients after which the factor doubles.
const STEPS: usize = 2000;

impl Default for LossScale {
    fn default() -> Self {
        Self {
            factor: 65_536.0,
            steps: 0,
        }
    }
}

impl LossScale {
    /// Adapts the factor after a step, and returns whether the step should update the parameters.
    ///
    /// `is_finite` says whether the gradients are finite. At a factor of 1, the result is always
    /// true, because gradients that are not finite then have another cause than the factor.
    pub(crate) fn observe(&mut self, is_finite: bool) -> bool {
        if !is_finite && self.factor > 1.0 {
            (self.factor, self.steps) = (self.factor / 2.0, 0);
            return false;
        }
        self.steps += 1;
        if self.steps == STEPS {
            (self.factor, self.steps) = (self.factor * 2.0, 0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_falls_at_once_and_rises_slowly() {
        let mut scale = LossScale::default();
        assert!(!scale.observe(false));
        assert_eq!(scale.factor, 32_768.0);
        for _ in 0..STEPS {
            assert!(scale.observe(true));
        }
        assert_eq!(scale, LossScale::default());
        scale.factor = 1.0;
        assert!(scale.observe(false));
    }
}
