//! Initialisation of parameters (Glorot and Bengio 2010; biases as in `torch.nn.Linear`).
//!
//! Values are drawn on the host, so that one seed gives the same model on every backend. They are
//! drawn while the model is built, not when a parameter is first used, so that they do not depend
//! on the order in which parameters are used.

use std::sync::Once;

use burn::module::Param;
use burn::nn::{Embedding, Linear};
use burn::tensor::{Device, Distribution, FloatDType, Tensor, TensorData};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::config::PositionConfig;

/// Draws the initial parameters of one model.
pub(crate) struct Init<'a> {
    device: &'a Device,
    /// Random generator of matrices and biases; `None` sets them to 0 instead.
    rng: Option<ChaCha8Rng>,
    /// The last sinusoidal position table, which encoder and decoder share if they have the same
    /// positions; `None` until it is computed.
    sinusoid: Option<(PositionConfig, usize, Tensor<2>)>,
}

impl<'a> Init<'a> {
    /// Creates an initialiser whose seed is drawn from the device's random generator.
    pub fn new(device: &'a Device) -> Self {
        let draw = Tensor::<1>::random([2], Distribution::Uniform(0.0, 1.0), device);
        let seed = draw
            .into_data()
            .iter::<f32>()
            .fold(0, |seed, x| (seed << 32) | u64::from(x.to_bits()));
        Self::seeded(seed, device)
    }

    /// Creates an initialiser whose draws depend only on `seed`.
    pub fn seeded(seed: u64, device: &'a Device) -> Self {
        warn_of_slow_devices(device);
        Self {
            device,
            rng: Some(ChaCha8Rng::seed_from_u64(seed)),
            sinusoid: None,
        }
    }

    /// Creates an initialiser that draws nothing: matrices and biases are zeros.
    ///
    /// Use it for parameters that will be replaced. Each parameter is a single stored zero that is
    /// expanded to its shape. It takes almost no memory on backends that expand without a copy,
    /// such as flex.
    pub fn zeros(device: &'a Device) -> Self {
        warn_of_slow_devices(device);
        Self {
            device,
            rng: None,
            sinusoid: None,
        }
    }

    pub fn device(&self) -> &Device {
        self.device
    }

    /// Returns the sinusoidal position table `[max_len, D]`, which `compute` returns for a
    /// configuration and a width.
    pub fn sinusoid(
        &mut self,
        config: &PositionConfig,
        d_model: usize,
        compute: fn(&PositionConfig, usize) -> TensorData,
    ) -> Tensor<2> {
        match &self.sinusoid {
            Some((of, width, table)) if of == config && *width == d_model => table.clone(),
            _ => {
                let table = Tensor::from_data(compute(config, d_model), self.device);
                self.sinusoid = Some((config.clone(), d_model, table.clone()));
                table
            }
        }
    }

    /// Draws a tensor whose elements are uniform in `[-bound, bound)`.
    fn uniform<const D: usize>(&mut self, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        self.uniform_columns(shape, &[(shape[D - 1], bound)])
    }

    /// Draws a tensor whose last axis is split into `parts`. Each part has a width and the bound of
    /// its elements, which are uniform in `[-bound, bound)`.
    fn uniform_columns<const D: usize>(
        &mut self,
        shape: [usize; D],
        parts: &[(usize, f64)],
    ) -> Param<Tensor<D>> {
        let Some(rng) = &mut self.rng else {
            let zero = Tensor::<D>::zeros([1; D], self.device);
            return Param::from_tensor(zero.expand(shape));
        };
        let mut values: Vec<f32> = Vec::with_capacity(shape.iter().product());
        for _ in 0..shape[..D - 1].iter().product() {
            for &(width, bound) in parts {
                let bound = bound as f32;
                values.extend((0..width).map(|_| rng.random_range(-bound..bound)));
            }
        }
        Param::from_data(TensorData::new(values, shape), self.device)
    }

    /// Draws a Xavier-uniform matrix `[d_input, d_output]`.
    ///
    /// Its elements are uniform within `±sqrt(6 / (d_input + d_output))`.
    pub fn xavier(&mut self, d_input: usize, d_output: usize) -> Param<Tensor<2>> {
        self.packed_xavier(d_input, &[(d_output, 1.0)])
    }

    /// Draws Xavier-uniform matrices, side by side in one matrix. `parts` has the width and the
    /// gain of each matrix.
    fn packed_xavier(&mut self, d_input: usize, parts: &[(usize, f64)]) -> Param<Tensor<2>> {
        let bound =
            |&(width, gain): &(usize, f64)| (width, gain * (6.0 / (d_input + width) as f64).sqrt());
        let parts: Vec<_> = parts.iter().map(bound).collect();
        let width = parts.iter().map(|(width, _)| width).sum();
        self.uniform_columns([d_input, width], &parts)
    }

    /// Draws a bias as in `torch.nn.Linear`: uniform within `±1 / sqrt(d_input)`.
    pub fn bias(&mut self, d_input: usize, d_output: usize) -> Param<Tensor<1>> {
        self.uniform([d_output], 1.0 / (d_input as f64).sqrt())
    }

    /// Draws a linear layer with a weight `[d_input, d_output]`, and a bias if `has_bias`.
    pub fn linear(&mut self, d_input: usize, d_output: usize, has_bias: bool) -> Linear {
        self.packed_linear(d_input, &[(d_output, 1.0)], has_bias)
    }

    /// Draws linear layers that read the same input, packed in one weight
    /// `[d_input, sum of the widths]`. `parts` has the width and the gain of each layer's weight.
    pub fn packed_linear(
        &mut self,
        d_input: usize,
        parts: &[(usize, f64)],
        has_bias: bool,
    ) -> Linear {
        let width = parts.iter().map(|(width, _)| width).sum();
        Linear {
            weight: self.packed_xavier(d_input, parts),
            bias: has_bias.then(|| self.bias(d_input, width)),
        }
    }

    /// Draws an embedding table `[n, d_model]`: with elements of variance 1 if `is_unit`, otherwise
    /// Xavier-uniform.
    pub fn embedding(&mut self, n: usize, d_model: usize, is_unit: bool) -> Embedding {
        Embedding {
            weight: if is_unit {
                self.uniform([n, d_model], 3f64.sqrt())
            } else {
                self.xavier(n, d_model)
            },
        }
    }
}

/// Says once, on standard error, what keeps a device from its fast paths: a missing feature of this
/// crate, or half precision on flex. A build has no other way to notice: Burn's features are not
/// visible to this crate.
fn warn_of_slow_devices(device: &Device) {
    static ONCE: [Once; 3] = [const { Once::new() }; 3];
    let name = format!("{device:?}");
    let backend = BACKENDS.iter().find(|(_, known, _)| name.contains(known));
    let say = |index: usize, what: &str| {
        ONCE[index].call_once(|| {
            eprintln!(
                "transformer: {what}, a model on this device is slower, by up to several times"
            );
        });
    };
    let is_flex = backend.is_some_and(|(feature, ..)| *feature == "flex");
    if let Some(feature) = missing_feature(
        backend.map(|(feature, _, is_on)| (*feature, *is_on)),
        cfg!(feature = "autodiff"),
        device.is_autodiff(),
    ) {
        let index = usize::from(feature == "autodiff");
        say(index, &format!("without this crate's feature `{feature}`"));
    }
    if is_flex && device.settings().float_dtype != FloatDType::F32 {
        say(2, "in another precision than f32");
    }
}

/// Returns whether a device compiles its kernels while a program runs, as GPUs do.
pub(crate) fn compiles_kernels(device: &Device) -> bool {
    let [.., (_, name, _)] = BACKENDS;
    format!("{device:?}").contains(name)
}

/// Features of backends, the names of their devices, and whether the features are on.
const BACKENDS: [(&str, &str, bool); 3] = [
    ("flex", "Flex", cfg!(feature = "flex")),
    ("ndarray", "NdArray", cfg!(feature = "ndarray")),
    // One feature of several brings what is common to all GPUs.
    ("wgpu", "Cube", cfg!(feature = "_gpu")),
];

/// Returns the feature without which a device has no fast paths; `None` if none is missing. `backend`
/// is the feature of the device's backend and whether it is on, `has_autodiff` that of `autodiff`.
fn missing_feature(
    backend: Option<(&'static str, bool)>,
    has_autodiff: bool,
    is_autodiff: bool,
) -> Option<&'static str> {
    match backend {
        // Other backends have fast backward passes only.
        Some((feature, false)) if is_autodiff || feature == "flex" => Some(feature),
        _ if is_autodiff && !has_autodiff => Some("autodiff"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_makes_a_model_fast_is_missed() {
        let [on, off] = [true, false].map(|is_on| Some(("flex", is_on)));
        let ndarray = Some(("ndarray", false));
        assert_eq!(missing_feature(on, true, true), None);
        assert_eq!(missing_feature(on, false, false), None);
        assert_eq!(missing_feature(on, false, true), Some("autodiff"));
        assert_eq!(missing_feature(off, true, true), Some("flex"));
        assert_eq!(missing_feature(off, true, false), Some("flex"));
        assert_eq!(missing_feature(ndarray, true, true), Some("ndarray"));
        assert_eq!(missing_feature(ndarray, true, false), None);
        assert_eq!(missing_feature(None, false, true), Some("autodiff"));
    }

    #[test]
    fn backends_are_known_by_the_names_of_their_devices() {
        for device in [Device::flex(), Device::flex().autodiff()] {
            assert!(format!("{device:?}").contains(BACKENDS[0].1), "{device:?}");
        }
    }
}
