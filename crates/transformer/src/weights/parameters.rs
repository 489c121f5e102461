//! Reads and replaces a module's parameters by name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor, TensorData};

use super::error::WeightsError;
use super::int8::{Int8, axis, dequantize};
use super::named::{MapNamed, VisitNamed, map_named, visit_named};

/// Parameters by name, in alphabetical order.
pub type Parameters = BTreeMap<String, TensorData>;

/// Returns the floating-point parameters of a module.
///
/// The name of a parameter is its path in the module.
pub fn parameters<M: Module>(module: &M) -> Parameters {
    struct Values(Parameters);
    impl VisitNamed for Values {
        fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
            self.0.insert(name, param.val().into_data());
        }
    }
    let mut values = Values(Parameters::new());
    visit_named(module, &mut values);
    values.0
}

/// Returns a copy of `module` with the given parameters, on the module's device and in its
/// precision; matrices of a quantised module that are given in f32 stay so.
///
/// A matrix that is quantised in blocks stays quantised on devices without autodiff for which
/// [`fused::takes_int8`] is true, if its blocks have the direction that
/// [`quantize_int8`](super::quantize_int8()) gives them. Otherwise, it is dequantised.
///
/// # Errors
///
/// A parameter is missing, is not in the module, or has another shape than in the module.
pub fn with_parameters<M: Module>(module: &M, given: Parameters) -> Result<M, WeightsError> {
    let own = shapes(module);
    let missing: Vec<&String> = own
        .keys()
        .filter(|name| !given.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        return Err(WeightsError::missing(missing));
    }
    let unused: Vec<&String> = given
        .keys()
        .filter(|name| !own.contains_key(*name))
        .collect();
    if !unused.is_empty() {
        return Err(WeightsError::unused(unused));
    }
    for (name, expected) in &own {
        let found = given[name].shape();
        if found.as_slice() != &expected[..] {
            return Err(WeightsError::Shape {
                name: name.clone(),
                expected: expected.clone(),
                found: found.to_vec(),
            });
        }
    }
    Ok(map_named(module.clone(), &mut Replace(given)))
}

/// Returns the mean of the parameters of several models, in f32. Averaging the last checkpoints of a
/// training run often gives a better model (paper, section 6.1).
///
/// Quantised matrices are dequantised. The result has no parameters if there is no model.
///
/// # Errors
///
/// The first error of `models`, which are taken one by one, so that only one needs to be in memory.
///
/// # Panics
///
/// If the models differ in the names or the shapes of their parameters.
pub fn mean<E>(models: impl IntoIterator<Item = Result<Parameters, E>>) -> Result<Parameters, E> {
    let mut sums = BTreeMap::<String, (Vec<usize>, Vec<f64>)>::new();
    let mut n = 0.0;
    for parameters in models {
        let parameters = parameters?;
        if n > 0.0 {
            let first = sums.iter().map(|(name, (shape, _))| (name, &shape[..]));
            let this = parameters
                .iter()
                .map(|(name, data)| (name, &data.shape()[..]));
            let (first, this): (BTreeSet<_>, BTreeSet<_>) = (first.collect(), this.collect());
            if let Some((name, shape)) = first.symmetric_difference(&this).next() {
                panic!("only some of the models have a parameter {name} of shape {shape:?}");
            }
        }
        n += 1.0;
        for (name, data) in parameters {
            let zeros = || (data.shape().to_vec(), vec![0.0; data.num_elements()]);
            let (_, sum) = sums.entry(name).or_insert_with(zeros);
            for (sum, x) in sum.iter_mut().zip(dequantize(&data).iter::<f64>()) {
                *sum += x;
            }
        }
    }
    let mean = |(name, (shape, sum)): (String, (Vec<usize>, Vec<f64>))| {
        let mean: Vec<f32> = sum.iter().map(|sum| (sum / n) as f32).collect();
        (name, TensorData::new(mean, shape))
    };
    Ok(sums.into_iter().map(mean).collect())
}

/// A mapper that replaces the parameters of a module by name.
struct Replace(Parameters);

impl MapNamed for Replace {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let data = self
            .0
            .remove(&name)
            .expect("the names were compared before");
        param.map(|tensor| {
            let device = tensor.device();
            // Quantised matrices cannot be trained, so they are dequantised on devices with
            // autodiff.
            let stays = fused::takes_int8(&device) && !tensor.device().is_autodiff();
            let matrix = Int8::of(&data);
            if stays && matrix.is_some_and(|matrix| axis(&name) == Some(matrix.axis())) {
                return Tensor::from_data(data, &device);
            }
            // Data that is not quantised is moved, not copied.
            let data = match dequantize(&data) {
                Cow::Owned(dequantized) => dequantized,
                Cow::Borrowed(_) => data,
            };
            let is_trained = tensor.is_require_grad();
            let precision = match tensor.dtype() {
                DType::QFloat(_) => DType::F32,
                precision => precision,
            };
            Tensor::from_data(data, (&tensor.device(), precision)).set_require_grad(is_trained)
        })
    }
}

/// Returns the shapes of a module's floating-point parameters by name, without copying their
/// elements from the device.
pub fn shapes<M: Module>(module: &M) -> BTreeMap<String, Vec<usize>> {
    struct Shapes(BTreeMap<String, Vec<usize>>);
    impl VisitNamed for Shapes {
        fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
            self.0.insert(name, param.shape().to_vec());
        }
    }
    let mut shapes = Shapes(BTreeMap::new());
    visit_named(module, &mut shapes);
    shapes.0
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::config::{TransformerConfig, WeightTying};
    use crate::model::Transformer;

    fn model(seed: u64, d_ff: usize, tying: WeightTying) -> Transformer {
        TransformerConfig::new(11, 11)
            .with_d_model(8)
            .with_n_heads(2)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1)
            .with_d_ff(d_ff)
            .with_weight_tying(tying)
            .init_seeded(seed, &Device::flex())
            .unwrap()
    }

    #[test]
    fn trained_parameters_stay_trained() {
        let device = Device::flex().autodiff();
        let model = TransformerConfig::new(5, 5)
            .with_d_model(4)
            .with_n_heads(1)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1)
            .with_d_ff(4)
            .init_seeded(3, &device)
            .unwrap();
        let read = with_parameters(&model, parameters(&model)).unwrap();
        let weight = read.decoder.layers[0].feed_forward.w_1.bias.clone();
        assert!(weight.unwrap().val().is_require_grad());
    }

    #[test]
    fn errors_name_the_parameters_that_do_not_fit() {
        let own = model(1, 6, WeightTying::None);
        let error_of = |given| with_parameters(&own, given).unwrap_err().to_string();
        let other = parameters(&model(1, 7, WeightTying::None));
        let error = error_of(other);
        assert!(
            error.contains("has the shape [7], but must have [6]"),
            "{error}"
        );

        let mut given = parameters(&own);
        let name = "decoder.layers.0.feed_forward.w_1.bias";
        let bias = given.remove(name).unwrap();
        assert_eq!(error_of(given.clone()), format!("has no tensor {name}"));
        given.insert(name.into(), bias.clone());
        given.insert("a".into(), bias.clone());
        given.insert("b".into(), bias);
        assert_eq!(
            error_of(given),
            "has a tensor a, b that the model does not have"
        );
    }
}
