//! Numbers of half the size: the model computes with them, the optimiser does not.
//!
//! Parameters and moments stay f32 (Micikevicius et al. 2018). Each step casts the parameters, and
//! the cast's backward pass brings the gradients back to f32. The loss is computed in f32. f16's
//! smallest numbers are so large that gradients would vanish: the loss is scaled up, as far as the
//! gradients stay finite.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, DeviceConfig, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

use crate::error::UsageError;

/// What the model computes with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits
    #[default]
    F32,
    /// 16 bits, 5 of them for the exponent; the loss is scaled
    F16,
    /// 16 bits, 8 of them for the exponent
    Bf16,
}

impl Precision {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::F16 => FloatDType::F16,
            Self::Bf16 => FloatDType::BF16,
        }
    }

    /// Makes it the device's default, before there is any tensor on it.
    ///
    /// # Errors
    ///
    /// If the device does not compute with such numbers.
    pub fn configure(self, device: &mut Device) -> Result<(), UsageError> {
        if self == Self::F32 {
            return Ok(());
        }
        let refused = |why: &str| {
            let expected = format!("{why}; use --precision f32");
            UsageError::new("--precision", self.name(), expected)
        };
        if !device.supports_dtype(self.dtype()) {
            return Err(refused("is not what this backend can compute with"));
        }
        device
            .configure(DeviceConfig::default().float_dtype(self.dtype()))
            .map_err(|error| refused(&error.to_string()))
    }

    /// The parameters in f32, for the optimiser.
    pub(super) fn master<M: Module>(self, module: M) -> M {
        match self {
            Self::F32 => module,
            _ => module.map(&mut Master),
        }
    }

    /// A module that computes in this precision with the parameters of `master`, through which
    /// gradients reach them.
    pub(super) fn computing<M: Module>(self, master: &M) -> M {
        match self {
            Self::F32 => master.clone(),
            _ => master.clone().map(&mut Cast(self.dtype())),
        }
    }

    /// At the beginning of a run.
    pub(super) fn loss_scale(self) -> Option<LossScale> {
        (self == Self::F16).then(LossScale::default)
    }
}

struct Master;

impl ModuleMapper for Master {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let is_trained = tensor.is_require_grad();
            let device = tensor.device();
            let data = tensor.into_data().convert_dtype(DType::F32);
            Tensor::from_data(data, (&device, DType::F32)).set_require_grad(is_trained)
        })
    }
}

struct Cast(FloatDType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}

/// What the loss is multiplied by, so that small gradients do not vanish: doubled after many steps
/// whose gradients were finite, halved when they were not; such a step changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// A power of two.
    pub factor: f64,
    /// Steps since it changed.
    pub steps: usize,
}

/// Steps with finite gradients after which the factor is doubled.
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
    /// Takes note of a step whose gradients were all finite, or not; whether it counts. At a factor
    /// of 1 it always does: then scaling is not what is wrong.
    pub(super) fn observe(&mut self, is_finite: bool) -> bool {
        if !is_finite && self.factor > 1.0 {
            *self = Self {
                factor: self.factor / 2.0,
                steps: 0,
            };
            return false;
        }
        self.steps += 1;
        if self.steps == STEPS {
            *self = Self {
                factor: self.factor * 2.0,
                steps: 0,
            };
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

    #[test]
    fn gradients_reach_the_f32_parameters_through_the_cast() {
        #[derive(Module, Debug)]
        struct Weight {
            weight: Param<Tensor<1>>,
        }
        let device = Device::flex().autodiff();
        let master = Weight {
            weight: Param::from_data([1.5, -2.0], &device),
        };
        let module = Precision::Bf16.computing(&master);
        let weight = module.weight.val();
        assert_eq!(weight.dtype(), DType::BF16);
        let loss = weight.square().cast(FloatDType::F32).sum();
        let gradient = master.weight.val().grad(&loss.backward()).unwrap();
        assert_eq!(gradient.dtype(), DType::F32);
        assert_eq!(
            gradient.into_data().iter::<f32>().collect::<Vec<_>>(),
            [3.0, -4.0]
        );
    }
}
