//! Mixed precision: the model computes in 16 bits, and the optimizer in 32 bits.
//!
//! Parameters and moments stay in f32 (Micikevicius et al. 2018), and the loss is computed in f32.
//!
//! On the backend flex with fast paths (the kernels of `fused`), bf16 applies only to matmuls, and
//! all tensors stay f32 ([`fused::bf16_matmuls`]). If the CPU has bf16 instructions, large matmuls
//! outside attention round their inputs to bf16 and sum in f32.
//!
//! In f16, and in bf16 on other backends or without fast paths, the model's tensors have 16 bits.
//! Each step casts the parameters, and the cast's backward pass returns the gradients in f32. In
//! f16, small gradients would be rounded to 0. The loss is therefore multiplied by a factor that is
//! kept large, but small enough for finite gradients ([`LossScale`](crate::run::LossScale)).

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, DeviceConfig, FloatDType, Tensor};

use crate::config::{ExecutionConfig, Precision};
use crate::error::UsageError;

/// How a model computes on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mixed {
    /// Everything is f32.
    No,
    /// Tensors are f32, and [`fused::bf16_matmuls`] are on.
    Matmuls,
    /// Tensors have 16 bits.
    Tensors(FloatDType),
}

impl Mixed {
    /// Returns how a model with this precision computes on a device. In bf16, this also depends on
    /// whether the calling thread has fast paths.
    pub fn of(precision: Precision, device: &Device) -> Self {
        match precision {
            Precision::F32 => Self::No,
            Precision::F16 => Self::Tensors(FloatDType::F16),
            Precision::Bf16 if fused::takes_bf16_matmuls(device) => Self::Matmuls,
            Precision::Bf16 => Self::Tensors(FloatDType::BF16),
        }
    }

    /// Sets the format of the calling thread's matmuls until the guard is dropped.
    pub fn matmuls(self) -> fused::Bf16Matmuls {
        fused::bf16_matmuls(self == Self::Matmuls)
    }

    /// Returns a module with its parameters in f32, which the optimizer updates.
    pub fn master<M: Module>(self, module: M) -> M {
        match self {
            Self::No | Self::Matmuls => module,
            Self::Tensors(_) => module.map(&mut Master),
        }
    }

    /// Returns a copy of `master` in the precision of the forward pass. If the copy has 16 bits,
    /// gradients reach the parameters of `master` through the cast.
    pub fn computing<M: Module>(self, master: &M) -> M {
        match self {
            Self::No | Self::Matmuls => master.clone(),
            Self::Tensors(dtype) => master.clone().map(&mut Cast(dtype)),
        }
    }
}

/// Sets the default precision of a device to that of the model's tensors, if they have 16 bits.
/// Call this function before any tensor is on the device.
///
/// In f32, this function does nothing. In bf16, it does nothing on flex if the calling thread has
/// fast paths, because tensors then stay f32.
///
/// # Errors
///
/// If the device does not support the precision, or has been used or configured before.
pub fn configure(precision: Precision, device: &mut Device) -> Result<(), UsageError> {
    let Mixed::Tensors(dtype) = Mixed::of(precision, device) else {
        return Ok(());
    };
    let rejected = |why: &str| {
        let expected = format!("{why}; use f32");
        UsageError::setting(ExecutionConfig::precision, precision.name(), expected)
    };
    if !device.supports_dtype(dtype) {
        return Err(rejected("is not what this backend can compute with"));
    }
    let configured = device.configure(DeviceConfig::default().float_dtype(dtype));
    configured.map_err(|error| rejected(&error.to_string()))
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
        let module = Mixed::Tensors(FloatDType::BF16).computing(&master);
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
