//! Export of weights to any layout.

use std::borrow::Cow;
use std::collections::BTreeMap;

use burn::tensor::{DType, TensorData};

use super::contents::Contents;
use super::error::WeightsError;
use super::expand::expand;
use super::int8::{Int8, dequantize};
use super::layout::Layout;
use super::parameters::Parameters;
use super::rule::Kind;
use super::stacks::Stacks;
use super::tying::{SOURCE_TABLE, transposed};
use crate::config::Positions;
use crate::position::sinusoidal;

/// Returns weights with the names and the arrangement of a layout.
///
/// `stacks` is the configuration of a whole model or of a stack, and `contents` says what of it is
/// exported. The parameters of a single stack have the names that
/// [`parameters`](super::parameters()) gives them in the stack or in a whole model
/// (`encoder.layers.0..`). In the result, a single stack has the names that the layout gives it
/// outside a model. If `positions` is true, the result
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
/// The layout cannot represent the model. A parameter is missing, is not the model's, is neither f32 nor quantised by
/// [`quantize_int8`](super::quantize_int8()), or does not have the shape that `config` gives it.
pub fn export(
    stacks: impl Into<Stacks>,
    contents: Contents,
    parameters: &Parameters,
    layout: Layout,
    positions: bool,
) -> Result<Parameters, WeightsError> {
    let stacks = stacks.into();
    if let Some((field, value)) = layout.unsupported(&stacks, contents) {
        return Err(WeightsError::Layout {
            layout,
            field,
            value,
        });
    }
    let mut stacks = stacks.only(contents);
    let parameters = &whole_names(contents, parameters);
    check_whole(&stacks, contents, parameters)?;
    let family = layout.family();
    let is_bare = contents != family.contents;
    let shared = shared(parameters);
    let mut all: BTreeMap<String, (Vec<usize>, Vec<f32>)> = BTreeMap::new();
    let mut quantized = Parameters::new();
    for mut rule in expand(layout, stacks.n_layers(), is_bare) {
        let mut of_stack = stacks
            .parts_mut()
            .filter(|(stack, ..)| *stack == rule.stack());
        let (_, input, layer) = of_stack.next().expect("the rules are those of the stacks");
        rule.set_heads(layer.attention.n_heads, layer.attention.kv_heads());
        let name = &rule.theirs[0];
        let inner = name.strip_prefix(family.core);
        let name = inner.filter(|_| is_bare).unwrap_or(name);
        if let Kind::Positions(_) = rule.kind
            && input.positions.kind != Positions::Learned
        {
            // A stack alone lacks a table outside the module in which it is.
            let lacks_table = family.computes_positions || is_bare && inner.is_none();
            if positions && !lacks_table {
                let table = sinusoidal::configured_table(&input.positions, input.d_model);
                let shape = rule.their_shape(&table.shape().to_vec());
                all.insert(name.into(), (shape, table.iter::<f32>().collect()));
            }
            continue;
        }
        // The table of one stack alone has only the name that it has in the stack.
        if name.ends_with("shared.weight") && parameters.contains_key(SOURCE_TABLE) {
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
            let mut rows = vec![0.0; offset * input.d_model];
            rows.extend_from_slice(values);
            let theirs = rule.their_shape(&[shape[0] + offset, input.d_model]);
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
    quantized.extend((family.added)(&stacks));
    let tensor = |(name, (shape, values))| (name, TensorData::new(values, shape));
    quantized.extend(all.into_iter().map(tensor));
    Ok(quantized)
}

/// Returns parameters with their names in a whole model, also if they are those of a stack alone.
fn whole_names(contents: Contents, parameters: &Parameters) -> Cow<'_, Parameters> {
    let stack = match contents {
        Contents::Model => return Cow::Borrowed(parameters),
        Contents::Encoder => "encoder.",
        Contents::Decoder => "decoder.",
    };
    if parameters.keys().any(|name| name.starts_with(stack)) {
        return Cow::Borrowed(parameters);
    }
    let name = |(name, data): (&String, &TensorData)| (format!("{stack}{name}"), data.clone());
    Cow::Owned(parameters.iter().map(name).collect())
}

/// Checks that the parameters of the model are given, no others, and have the right shapes and types.
fn check_whole(
    stacks: &Stacks,
    contents: Contents,
    parameters: &Parameters,
) -> Result<(), WeightsError> {
    let shapes = stacks.shapes();
    let is_left = |name: &&String| {
        let is_other = (contents == Contents::Encoder && name.starts_with("decoder."))
            || (contents == Contents::Decoder && name.starts_with("encoder."));
        !is_other && !shapes.contains_key(*name)
    };
    let left: Vec<&String> = parameters.keys().filter(is_left).collect();
    if !left.is_empty() {
        return Err(WeightsError::unused(left));
    }
    for (name, expected) in shapes {
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
        all.insert(SOURCE_TABLE.into(), table.clone());
    }
    all
}
