//! Quantised weights for inference.

use burn::module::{Module, ParamGroup, Quantizer};
use burn::tensor::Device;
use burn::tensor::quantization::{Calibration, QuantValue};

/// Returns the module with the weights of its linear layers quantised to 8 bits.
///
/// Burn's quantiser scales each matrix symmetrically by its largest absolute element. Embeddings,
/// norms and biases keep their precision. Burn's operations on quantised weights replace this
/// crate's fast paths; their speed depends on the backend.
pub fn quantize_int8<M: Module>(module: M, device: &Device) -> M {
    let scheme = device.settings().quantization.scheme;
    let mut quantizer = Quantizer::new(Calibration::MinMax, scheme.with_value(QuantValue::Q8S));
    let matrices = r"(\.w_[a-z0-9]+|generator)\.weight$";
    let matrices = ParamGroup::from_regex(matrices).expect("the pattern is valid");
    module.quantize_weights_group(&mut quantizer, matrices)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Int;
    use burn::tensor::Tensor;

    use super::*;
    use crate::config::TransformerConfig;
    use crate::weights::named::{VisitNamed, visit_named};

    #[test]
    fn quantised_logits_are_close() {
        let device = Device::flex();
        let model = TransformerConfig::new(11, 11)
            .with_d_model(32)
            .with_n_heads(4)
            .with_d_ff(64)
            .with_n_encoder_layers(2)
            .with_n_decoder_layers(2)
            .init_seeded(3, &device)
            .unwrap();
        let small = quantize_int8(model.clone(), &device);
        struct Count(usize);
        impl VisitNamed for Count {
            fn visit<const D: usize>(&mut self, _: String, param: &burn::module::Param<Tensor<D>>) {
                let is_small = matches!(param.val().dtype(), burn::tensor::DType::QFloat(_));
                self.0 += usize::from(is_small);
            }
        }
        let mut count = Count(0);
        visit_named(&small, &mut count);
        // An encoder layer has four matrices, a decoder layer seven, and the generator one.
        assert_eq!(count.0, 2 * 4 + 2 * 7 + 1);

        let ids = || Tensor::<2, Int>::from_data([[1, 5, 9, 3], [4, 2, 0, 0]], &device);
        let exact = model.forward(ids(), ids());
        let rounded = small.forward(ids(), ids());
        let largest = exact.clone().abs().max().into_scalar::<f32>();
        let difference = (exact - rounded).abs().max().into_scalar::<f32>();
        assert!(difference > 0.0, "nothing was rounded");
        assert!(difference < 0.05 * largest, "{difference} of {largest}");
    }
}
