//! Export of weights to any layout.

use std::collections::BTreeMap;

use burn::tensor::{DType, TensorData};

use super::contents::Contents;
use super::error::WeightsError;
use super::expand::expand;
use super::families::Layout;
use super::int8::{Int8, dequantize};
use super::parameters::Parameters;
use super::rule::Kind;
use super::shapes::shapes;
use super::tying::transposed;
use crate::config::{Positions, TransformerConfig};
use crate::position::sinusoidal;

/// Returns weights with the names and the arrangement of a layout.
///
/// `parameters` must have the names that [`parameters`](super::parameters()) gives them in a whole
/// model (`encoder.layers.0..`), even if they belong to a single stack. In the result, a single
/// stack has the names that the layout gives it outside a model. If `positions` is true, the result
/// includes the sinusoidal position tables that the layout's PyTorch classes keep in their state
/// dictionary. Quantised matrices stay quantised in the native layout, and are dequantised in other
/// layouts.
///
/// ```
/// use burn::tensor::Device;
/// use transformer::TransformerConfig;
/// use transformer::weights::{Contents, Layout, export, parameters};
///
/// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
/// let model = config.init(&Device::flex())?;
/// let tensors = export(&config, Contents::Model, &parameters(&model), Layout::TorchNn, false)?;
///
/// // PyTorch packs queries, keys and values as this crate does, but transposed.
/// let packed = &tensors["transformer.encoder.layers.0.self_attn.in_proj_weight"];
/// assert_eq!(packed.shape().as_slice(), [48, 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The layout cannot represent the model. A parameter is missing, is neither f32 nor quantised by
/// [`quantize_int8`](super::quantize_int8()), or does not have the shape that `config` gives it.
pub fn export(
    config: &TransformerConfig,
    contents: Contents,
    parameters: &Parameters,
    layout: Layout,
    positions: bool,
) -> Result<Parameters, WeightsError> {
    if let Some((field, value)) = layout.unsupported(config, contents) {
        return Err(WeightsError::Layout {
            layout,
            field,
            value,
        });
    }
    check_whole(config, contents, parameters)?;
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
    let family = layout.family();
    let shared = shared(parameters);
    let mut all: BTreeMap<String, (Vec<usize>, Vec<f32>)> = BTreeMap::new();
    let mut quantized = Parameters::new();
    for rule in expand(layout, n_layers, is_bare) {
        let name = &rule.theirs[0];
        let inner = name.strip_prefix(family.core);
        let name = inner.filter(|_| is_bare).unwrap_or(name);
        if let Kind::Positions(_) = rule.kind
            && config.positions != Positions::Learned
        {
            // A stack alone lacks a table outside the module in which it is.
            let has_table = !family.computes_positions && !(is_bare && inner.is_none());
            if positions && has_table {
                let shape = rule.their_shape(&[config.max_len, config.d_model]);
                all.insert(name.into(), (shape, sinusoid(config)));
            }
            continue;
        }
        let own = parameters.get(&rule.ours);
        let own = own.or_else(|| shared.get(&rule.ours).filter(|_| !family.is_own));
        let Some(data) = own else {
            continue;
        };
        if family.is_own && Int8::of(data).is_some() {
            quantized.insert(name.to_string(), data.clone());
            continue;
        }
        let data = dequantize(data);
        let shape = data.shape().to_vec();
        let values = data.as_slice::<f32>().expect("its type was checked");
        if let Kind::Positions(_) = rule.kind {
            let offset = family.position_offset;
            let mut rows = vec![0.0; offset * config.d_model];
            rows.extend_from_slice(values);
            let theirs = rule.their_shape(&[shape[0] + offset, config.d_model]);
            all.insert(name.into(), (theirs, rows));
            continue;
        }
        let their_shape = rule.their_shape(&shape);
        let (_, theirs) = all.entry(name.into()).or_insert_with(|| {
            let length = their_shape.iter().product();
            (their_shape, vec![0.0; length])
        });
        rule.for_each_pair(&shape, |there, here| theirs[there] = values[here]);
    }
    let tensor = |(name, (shape, values))| (name, TensorData::new(values, shape));
    quantized.extend(all.into_iter().map(tensor));
    Ok(quantized)
}

/// Checks that all parameters of the model are given, and have the right shapes and types.
fn check_whole(
    config: &TransformerConfig,
    contents: Contents,
    parameters: &Parameters,
) -> Result<(), WeightsError> {
    for (name, expected) in shapes(config, contents.has()) {
        match parameters.get(&name) {
            // An encoder may lack an embedding table.
            None if contents == Contents::Encoder && name.ends_with("embedding.weight") => {}
            None => return Err(WeightsError::missing([name])),
            Some(data) if data.shape().as_slice() != &expected[..] => {
                return Err(WeightsError::Shape {
                    name,
                    expected,
                    found: data.shape().to_vec(),
                });
            }
            Some(data) if data.dtype() != DType::F32 && Int8::of(data).is_none() => {
                return Err(WeightsError::Dtype {
                    name,
                    dtype: data.dtype().name().into(),
                    expected: "f32",
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns the decoder's embedding table under the names of the matrices that may share it: the
/// encoder's table and, transposed, the weight of the generator. All layouts except the native one
/// keep these matrices as separate tensors.
fn shared(parameters: &Parameters) -> Parameters {
    let mut all = Parameters::new();
    if let Some(table) = parameters.get("decoder.input.embedding.weight") {
        all.insert("decoder.generator.weight".into(), transposed(table));
        all.insert("encoder.input.embedding.weight".into(), table.clone());
    }
    all
}

/// Computes the elements of the sinusoidal position table.
fn sinusoid(config: &TransformerConfig) -> Vec<f32> {
    let table = sinusoidal::configured_table(&config.decoder().input.positions, config.d_model);
    table.iter::<f32>().collect()
}
