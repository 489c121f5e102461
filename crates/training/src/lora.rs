//! LoRA (Hu et al. 2022): each matrix `W` of a linear layer is frozen, and two low-rank matrices
//! `A` and `B` are trained instead. The layer computes with `W + alpha / rank * A B`.

use std::collections::BTreeMap;

use burn::module::{Lora, Module, ParamGroup};
use transformer::weights::shapes;

use crate::config::LoraConfig;

/// Returns a model in which only the LoRA matrices `A` and `B` of the linear layers are trained.
/// `config` has their rank and alpha; if it is `None`, `model` is returned unchanged.
///
/// `B` is zero, so that the outputs do not change at first. `A` is drawn at random on the device of
/// the model.
pub(crate) fn with_lora<M: Module>(model: M, config: Option<&LoraConfig>) -> M {
    let Some(config) = config else {
        return model;
    };
    let names = shapes(&model).into_keys();
    let of_layers: Vec<_> = names.filter(|name| is_of_linear_layer(name)).collect();
    let lora = Lora::new(config.rank, config.scale());
    model.apply_lora(lora.set_param_group(ParamGroup::from_paths(of_layers)))
}

/// Returns the number of trained parameters. `shapes` has the shape of each parameter by its name,
/// and `is_lora` says whether only LoRA's matrices are trained.
pub fn trained_parameters(shapes: &BTreeMap<String, Vec<usize>>, is_lora: bool) -> usize {
    let is_trained = |name: &str| !is_lora || name.contains(".lora.");
    let trained = shapes.iter().filter(|(name, _)| is_trained(name));
    let sizes = trained.map(|(_, shape)| shape.iter().product::<usize>());
    sizes.sum()
}

/// Returns a model in which LoRA's products are added to the matrices `W`, and `A` and `B` are
/// removed; `model` itself if `config` is `None`.
pub fn merged<M: Module>(model: M, config: Option<&LoraConfig>) -> M {
    match config {
        Some(_) => model.materialize(),
        None => model,
    }
}

/// Returns whether a parameter is the matrix of a linear layer inside the encoder or decoder. The
/// names of these layers begin with `w_`; embeddings and the output projection have other names.
fn is_of_linear_layer(name: &str) -> bool {
    let mut parts = name.rsplit('.');
    let is_weight = parts.next() == Some("weight");
    is_weight && parts.next().is_some_and(|layer| layer.starts_with("w_"))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Int, Tensor};
    use transformer::TransformerConfig;
    use transformer::weights::parameters;

    use super::*;

    #[test]
    fn the_model_begins_unchanged_and_only_thin_matrices_are_trained() {
        let device = Device::flex().autodiff();
        let config = TransformerConfig::new(11, 11)
            .with_d_model(8)
            .with_n_heads(2)
            .with_d_ff(6)
            .with_dropout(0.0)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1);
        let plain = config.init_seeded(1, &device).unwrap();
        let lora = LoraConfig {
            rank: 2,
            alpha: None,
        };
        let model = with_lora(plain.clone(), Some(&lora));
        let ids = Tensor::<2, Int>::from_data([[3, 4, 5]], &device);
        let logits = model.forward(ids.clone(), None, ids.clone());
        let expected = plain.forward(ids.clone(), None, ids);
        assert_eq!(logits.to_data(), expected.into_data());

        let gradients = logits.square().sum().backward();
        let of_a = &model.encoder.layers[0].self_attention.w_qkv.weight;
        assert!(of_a.val().grad(&gradients).is_none());
        let (all, own) = (parameters(&model), parameters(&plain));
        let added: Vec<_> = all.keys().filter(|name| !own.contains_key(*name)).collect();
        // Two matrices for each of `w_qkv`, `w_o`, `w_1` and `w_2` of both layers, and for `w_q`,
        // `w_kv` and `w_o` of cross-attention.
        assert_eq!(added.len(), 2 * (4 + 4 + 3));
        assert_eq!(
            added[0],
            "decoder.layers.0.cross_attention.w_kv.weight.lora.a"
        );
        assert_eq!(all[added[0]].shape().to_vec(), [8, 2]);
        let sizes = added.iter().map(|name| all[*name].num_elements());
        let shapes = shapes(&model);
        assert_eq!(trained_parameters(&shapes, true), sizes.sum::<usize>());
        assert!(trained_parameters(&shapes, false) > trained_parameters(&shapes, true));
        let merged = merged(model, Some(&lora));
        assert_eq!(parameters(&merged), own);
    }
}
