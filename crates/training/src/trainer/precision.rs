//! Mixed precision: the model computes in 16 bits, and the optimizer in 32 bits.
//!
//! Parameters and moments stay in f32 (Micikevicius et al. 2018). Each step casts the parameters,
//! and the cast's backward pass returns the gradients in f32. The loss is computed in f32. In f16,
//! small gradients would be rounded to 0. The loss is therefore multiplied by the largest factor
//! with which the gradients stay finite.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, DeviceConfig, FloatDType, Tensor};

use crate::config::Precision;
use crate::error::UsageError;

fn dtype(precision: Precision) -> FloatDType {
    match precision {
        Precision::F32 => FloatDType::F32,
        Precision::F16 => FloatDType::F16,
        Precision::Bf16 => FloatDType::BF16,
    }
}

/// Sets the default precision of a device. Call it before any tensor is on the device.
///
/// # Errors
///
/// If the device does not support the precision.
pub fn configure(precision: Precision, device: &mut Device) -> Result<(), UsageError> {
    if precision == Precision::F32 {
        return Ok(());
    }
    let path = "execution.precision";
    let rejected = |why: &str| {
        let expected = format!("{why}; use {{}} f32");
        UsageError::setting(path, precision.name(), expected).naming([path])
    };
    if !device.supports_dtype(dtype(precision)) {
        return Err(rejected("is not what this backend can compute with"));
    }
    let configured = device.configure(DeviceConfig::default().float_dtype(dtype(precision)));
    configured.map_err(|error| rejected(&error.to_string()))
}

/// Returns a module with its parameters in f32, which the optimizer updates.
pub(super) fn master<M: Module>(precision: Precision, module: M) -> M {
    match precision {
        Precision::F32 => module,
        _ => module.map(&mut Master),
    }
}

/// Returns a copy of `master` that computes in a precision. Gradients reach the parameters of
/// `master` through the cast.
pub(super) fn computing<M: Module>(precision: Precision, master: &M) -> M {
    match precision {
        Precision::F32 => master.clone(),
        _ => master.clone().map(&mut Cast(dtype(precision))),
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let module = computing(Precision::Bf16, &master);
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
