//! This crate's weights, in the names and arrangement of others.

use std::collections::BTreeMap;

use burn::tensor::TensorData;

use super::contents::Contents;
use super::error::WeightsError;
use super::layout::{self, CORE, Kind, Layout};
use super::parameters::Parameters;
use super::tying::transposed;
use crate::config::{Positions, TransformerConfig};
use crate::position::sinusoidal;

/// Weights in another layout.
///
/// Parameters are named as in a whole model, those of a stack alone too (`encoder.layers.0..`);
/// [`parameters`](super::parameters) gives them so for a model. A stack alone gets the names that it
/// has alone there. With `positions`, the sines and cosines are written, too, as PyTorch's classes
/// keep them in their state.
///
/// # Errors
///
/// If the layout has no place for what the model is, or a parameter is missing.
pub fn export(
    config: &TransformerConfig,
    contents: Contents,
    parameters: &Parameters,
    layout: Layout,
    positions: bool,
) -> Result<Parameters, WeightsError> {
    if let Some((field, value)) = layout.refuses(config, contents) {
        return Err(WeightsError::Layout {
            layout,
            field,
            value,
        });
    }
    let [has_encoder, has_decoder] = contents.has();
    let n_layers = [
        if has_encoder {
            config.n_encoder_layers
        } else {
            0
        },
        if has_decoder {
            config.n_decoder_layers
        } else {
            0
        },
    ];
    let is_bare = contents != Contents::Model;
    let shared = shared(parameters);
    let mut all: BTreeMap<String, (Vec<usize>, Vec<f32>)> = BTreeMap::new();
    for rule in layout::expand(layout, n_layers, is_bare) {
        let name = &rule.theirs[0];
        let name = if is_bare {
            name.strip_prefix(CORE).unwrap_or(name)
        } else {
            name
        };
        if let Kind::Positions(_) = rule.kind {
            // A stack of `torch.nn` alone has no positions.
            if positions && !(is_bare && layout == Layout::TorchNn) {
                let shape = rule.their_shape(&[config.max_len, config.d_model]);
                all.insert(name.into(), (shape, sinusoid(config)));
            }
            continue;
        }
        let own = parameters.get(&rule.ours);
        let own = own.or_else(|| shared.get(&rule.ours).filter(|_| layout != Layout::Native));
        let Some(data) = own else {
            continue;
        };
        let shape = data.shape().to_vec();
        let values = data
            .as_slice::<f32>()
            .map_err(|_| WeightsError::Precision {
                name: rule.ours.clone(),
                dtype: data.dtype().name().into(),
                expected: "f32",
            })?;
        let their_shape = rule.their_shape(&shape);
        let (_, theirs) = all.entry(name.into()).or_insert_with(|| {
            let length = their_shape.iter().product();
            (their_shape, vec![0.0; length])
        });
        rule.for_each_pair(&shape, |there, here| theirs[there] = values[here]);
    }
    check_whole(config, contents, parameters)?;
    let tensor = |(name, (shape, values))| (name, TensorData::new(values, shape));
    Ok(all.into_iter().map(tensor).collect())
}

fn check_whole(
    config: &TransformerConfig,
    contents: Contents,
    parameters: &Parameters,
) -> Result<(), WeightsError> {
    for (name, expected) in layout::shapes(config, contents.has()) {
        match parameters.get(&name) {
            // An encoder may have no table of its own.
            None if contents == Contents::Encoder && name.ends_with("embedding.weight") => {}
            None => return Err(WeightsError::missing([name])),
            Some(data) if data.shape().as_slice() != &expected[..] => {
                return Err(WeightsError::Shape {
                    name,
                    expected,
                    found: data.shape().to_vec(),
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The matrices that are another's here, and each their own there.
fn shared(parameters: &Parameters) -> Parameters {
    let mut all = Parameters::new();
    if let Some(table) = parameters.get("decoder.input.embedding.weight") {
        all.insert("decoder.generator.weight".into(), transposed(table));
        all.insert("encoder.input.embedding.weight".into(), table.clone());
    }
    all
}

fn sinusoid(config: &TransformerConfig) -> Vec<f32> {
    let of = match config.positions {
        Positions::SinusoidalHalves => sinusoidal::table_in_halves,
        _ => sinusoidal::table,
    };
    of(config.max_len, config.d_model).iter::<f32>().collect()
}
