//! Quantised weights for inference.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param, ParamGroup, Quantizer};
use burn::tensor::quantization::{Calibration, QuantValue};
use burn::tensor::{DType, FloatDType, Tensor};

use super::named::{MapNamed, map_named};

/// Returns the module with its large matrices quantised to 8 bits.
///
/// These are the weights of this crate's layers: of attention, feed-forward networks and generators, and
/// the embedding tables. Other layers of a module, such as a `Linear` of Burn, keep their weights,
/// since Burn would dequantise them at each use.
///
/// On the backend flex, the elements of each column of a weight `[in, out]`, and of each row of an
/// embedding table, are divided into blocks of 8 to 128 elements. Each block has its own scale. A
/// matrix that cannot be divided into such blocks is not quantised. Matmuls are computed with 8-bit
/// integers: see [`fused::quantize_int8`].
///
/// Without fast paths ([`fused::has_fast_paths`]), a quantised matrix would have to be dequantised
/// at each use. The elements are therefore rounded in the same way, but stored in f32.
///
/// Quantised matrices are for inference: they are not trained. On flex, the other parameters of the
/// module are then in f32, whatever they were in.
///
/// On other backends with fast paths, Burn's quantiser quantises the weights of linear layers with
/// the scheme of the device's settings, by default with one scale per weight. Embedding tables are
/// not quantised. The speed depends on the backend's operations.
pub fn quantize_int8<M: Module>(module: M) -> M {
    let device = &module.devices().into_iter().next().unwrap_or_default();
    let mut matrices = Matrices::default();
    module.visit(&mut matrices);
    let axes = matrices.axes;
    if fused::takes_int8(device) || !fused::has_fast_paths() {
        let stays = fused::has_fast_paths();
        return map_named(module, &mut Int8 { axes, stays });
    }
    let scheme = device.settings().quantization.scheme;
    let mut quantizer = Quantizer::new(Calibration::MinMax, scheme.with_value(QuantValue::Q8S));
    let linear = axes.into_iter().filter(|(_, axis)| *axis == 0);
    let linear = ParamGroup::from_paths(linear.map(|(name, _)| name).collect::<Vec<_>>());
    module.quantize_weights_group(&mut quantizer, linear)
}

/// A visitor that finds the matrices of this crate's layers, each with the axis of its blocks.
#[derive(Default)]
struct Matrices {
    /// The name of each field on the path, and the type of the struct that has it.
    path: Vec<(String, String)>,
    axes: BTreeMap<String, usize>,
}

impl ModuleVisitor for Matrices {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.push((name.into(), container_type.into()));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
        let mut path = self
            .path
            .iter()
            .rev()
            .map(|(name, of)| (&name[..], &of[..]));
        let axis = match (path.next(), path.next()) {
            (Some(("weight", "Struct:Generator")), _) => 0,
            (Some(("weight", _)), Some(("embedding", "Struct:InputLayer"))) => 1,
            (
                Some(("weight", _)),
                Some((_, "Struct:SelfAttention" | "Struct:CrossAttention" | "Struct:FeedForward")),
            ) => 0,
            _ => return,
        };
        let names: Vec<&str> = self.path.iter().map(|(name, _)| &name[..]).collect();
        self.axes.insert(names.join("."), axis);
    }
}

/// A mapper that quantises matrices.
struct Int8 {
    axes: BTreeMap<String, usize>,
    /// Whether matrices stay quantised. Otherwise, they are dequantised again.
    stays: bool,
}

impl MapNamed for Int8 {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.axes.get(&name) {
            Some(&axis) => param.map(|matrix| {
                let matrix = Tensor::<2>::from_dispatch(matrix.into_dispatch());
                let mut quantized = fused::quantize_int8(in_f32(matrix), axis);
                if !self.stays {
                    quantized = quantized.dequantize();
                }
                Tensor::from_dispatch(quantized.into_dispatch())
            }),
            None => param.map(in_f32),
        }
    }
}

/// Casts a tensor to f32, unless it is quantised.
fn in_f32<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match x.dtype() {
        DType::F32 | DType::QFloat(_) => x,
        _ => x.cast(FloatDType::F32),
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::conv::{Conv1d, Conv1dConfig};
    use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
    use burn::tensor::{Device, Int};

    use super::*;
    use crate::config::{EncoderConfig, TransformerConfig, WeightTying};
    use crate::encoder::Encoder;
    use crate::generate::{GenerateConfig, LengthPenalty, Method};
    use crate::weights::named::{VisitNamed, visit_named};

    #[test]
    fn quantised_logits_are_close() {
        let _fast_paths = fused::fast_paths(true);
        let device = Device::flex();
        let model = TransformerConfig::new(11, 11)
            .with_d_model(32)
            .with_n_heads(4)
            .with_d_ff(64)
            .with_n_encoder_layers(2)
            .with_n_decoder_layers(2)
            .init_seeded(3, &device)
            .unwrap();
        let small = quantize_int8(model.clone());
        struct Count(usize);
        impl VisitNamed for Count {
            fn visit<const D: usize>(&mut self, _: String, param: &Param<Tensor<D>>) {
                let is_small = matches!(param.val().dtype(), burn::tensor::DType::QFloat(_));
                self.0 += usize::from(is_small);
            }
        }
        let mut count = Count(0);
        visit_named(&small, &mut count);
        // An encoder layer has four matrices, a decoder layer seven, and the generator one. There
        // are two embedding tables.
        assert_eq!(count.0, 2 * 4 + 2 * 7 + 1 + 2);

        let ids = || Tensor::<2, Int>::from_data([[1, 5, 9, 3], [4, 2, 0, 0]], &device);
        let exact = model.forward(ids(), None, ids());
        let rounded = small.forward(ids(), None, ids());
        let largest = exact.clone().abs().max().into_scalar::<f32>();
        let difference = (exact - rounded.clone()).abs().max().into_scalar::<f32>();
        assert!(difference > 0.0, "nothing was rounded");
        assert!(difference < 0.05 * largest, "{difference} of {largest}");

        // A module in another precision is computed in f32.
        struct Cast(FloatDType);
        impl MapNamed for Cast {
            fn map<const D: usize>(
                &mut self,
                _: String,
                param: Param<Tensor<D>>,
            ) -> Param<Tensor<D>> {
                param.map(|x| x.cast(self.0))
            }
        }
        for precision in [FloatDType::BF16, FloatDType::F64] {
            let other = quantize_int8(map_named(model.clone(), &mut Cast(precision)));
            let difference = other.forward(ids(), None, ids()) - rounded.clone();
            let difference = difference.abs().max().into_scalar::<f32>();
            assert!(difference < 0.05 * largest, "{difference} of {largest}");
        }

        // Without fast paths, the weights are rounded in the same way, but stored in f32.
        let _plain = fused::fast_paths(false);
        let stored = quantize_int8(model.clone());
        let mut count = Count(0);
        visit_named(&stored, &mut count);
        assert_eq!(count.0, 0);
        let plain = stored.forward(ids(), None, ids());
        let exact = model.forward(ids(), None, ids());
        let difference = (exact - plain).abs().max().into_scalar::<f32>();
        assert!(difference > 0.0, "nothing was rounded");
        assert!(difference < 0.05 * largest, "{difference} of {largest}");
    }

    /// Burn's own layers would dequantise a matrix at each use.
    #[test]
    #[allow(deprecated)] // ndarray
    fn other_layers_keep_their_weights() {
        #[derive(Module, Debug)]
        struct Own {
            encoder: Encoder,
            embedding: Embedding,
            w_head: Linear,
            generator: Conv1d,
        }
        struct Check {
            has_tables: bool,
        }
        impl VisitNamed for Check {
            fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
                let is_small = matches!(param.val().dtype(), burn::tensor::DType::QFloat(_));
                let is_matrix = name.starts_with("encoder.") && D == 2;
                let is_taken = is_matrix && (self.has_tables || !name.contains("embedding"));
                assert_eq!(is_small, is_taken && fused::has_fast_paths(), "{name}");
            }
        }
        // Burn's quantiser takes no tables.
        for (device, has_tables) in [(Device::flex(), true), (Device::ndarray(), false)] {
            let config = EncoderConfig::new(16, 32, 2, 1).with_vocab_size(10);
            let own = Own {
                encoder: config.init(&device).unwrap(),
                embedding: EmbeddingConfig::new(32, 16).init(&device),
                w_head: LinearConfig::new(16, 16).init(&device),
                generator: Conv1dConfig::new(16, 16, 3).init(&device),
            };
            visit_named(&quantize_int8(own), &mut Check { has_tables });
        }
    }

    #[test]
    fn logits_of_a_large_model_are_close() {
        let device = Device::flex();
        // The configuration is the default one with a small vocabulary.
        let model = TransformerConfig::new(500, 500)
            .init_seeded(1, &device)
            .unwrap();
        let small = quantize_int8(model.clone());
        let ids = |seed: i64| {
            let ids: Vec<i64> = (0..48)
                .map(|i| (i * i * 31 + seed * 17) % 499 + 1)
                .collect();
            Tensor::<1, Int>::from_data(&ids[..], &device).reshape([3, 16])
        };
        let exact = model.forward(ids(1), None, ids(2));
        let rounded = small.forward(ids(1), None, ids(2));
        let spread = exact.clone().var(2).mean().sqrt().into_scalar::<f32>();
        let difference = (exact - rounded).abs().max().into_scalar::<f32>();
        assert!(difference < 0.1 * spread, "{difference} of {spread}");
    }

    #[test]
    fn the_sources_of_a_batch_do_not_affect_each_other() {
        let device = Device::flex();
        for tying in [WeightTying::None, WeightTying::All] {
            let model = TransformerConfig::new(23, 23)
                .with_d_model(48)
                .with_n_heads(4)
                .with_d_ff(96)
                .with_n_encoder_layers(2)
                .with_n_decoder_layers(2)
                .with_weight_tying(tying)
                .init_seeded(5, &device)
                .unwrap();
            let model = quantize_int8(model);
            let sources: Vec<Vec<u32>> = (1..9)
                .map(|n| (0..n).map(|i| 3 + (i * n) % 20).collect())
                .collect();
            let config = GenerateConfig::new(12)
                .with_bos_id(Some(1))
                .with_method(Method::Beam {
                    width: 3,
                    length_penalty: LengthPenalty::Average,
                });
            let all = model.generate(&sources, &config).unwrap();
            for (source, found) in sources.iter().zip(&all) {
                let alone = model.generate(&[source], &config).unwrap();
                assert_eq!(alone[0][0].tokens, found[0].tokens);
                if fused::has_fast_paths() {
                    assert_eq!(alone[0][0].score, found[0].score)
                } else {
                    assert!((alone[0][0].score - found[0].score).abs() < 1e-5)
                }
            }
        }
    }
}
