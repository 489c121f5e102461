//! Writes parameters as a safetensors file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use ::safetensors::tensor::{Dtype as FileDtype, Metadata, TensorInfo as FileInfo};
use burn::tensor::{DType, TensorData, bf16, f16};

use crate::choice::choices;
use crate::weights::error::WeightsError;
use crate::weights::int8::{Int8, axis, scales_of};
use crate::weights::parameters::Parameters;

/// Number of elements that are rounded at a time.
const ROUNDED: usize = 1 << 18;

/// Element type of the tensors that are written to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dtype {
    /// Elements are written exactly.
    #[default]
    F32,
    /// Elements are rounded to half precision; absolute values from 65,520 on become infinite.
    F16,
    /// Elements are rounded to bfloat16, which has the exponent of f32 and 8 bits of precision.
    BF16,
    /// The weights of linear layers and the embedding tables are quantised to 8 bits, as
    /// [`quantize_int8`](crate::weights::quantize_int8()) does on flex. They are recognised by
    /// their names in this crate. Other parameters, and matrices that cannot be divided into
    /// blocks, are written exactly.
    Int8,
}

choices!(Dtype, "dtype", {
    F32: "f32", "Exact";
    F16: "f16", "Half the size, values up to 65,504";
    BF16: "bf16", "Half the size, the range of f32, 2 to 3 significant digits";
    Int8: "int8", "A quarter of the size: 8 bits with a scale for each block; layout native only";
});

/// Returns the bytes of a safetensors file with these parameters.
///
/// Quantised matrices stay quantised.
///
/// # Errors
///
/// A parameter is neither f32 nor quantised as [`quantize_int8`](crate::weights::quantize_int8())
/// does on flex.
pub fn to_bytes(parameters: &Parameters) -> Result<Vec<u8>, WeightsError> {
    to_bytes_with(parameters, Dtype::F32, &BTreeMap::new())
}

/// Returns the bytes of a safetensors file with these parameters, rounded to `dtype`, and with
/// `metadata`.
///
/// Quantised matrices stay quantised.
///
/// # Errors
///
/// A parameter is neither f32 nor quantised as [`quantize_int8`](crate::weights::quantize_int8())
/// does on flex.
///
/// # Panics
///
/// With [`Dtype::Int8`], if the weight of a linear layer or an embedding table does not have two
/// axes.
pub fn to_bytes_with(
    parameters: &Parameters,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let mut bytes = Vec::new();
    write(&mut bytes, parameters, dtype, metadata)?;
    Ok(bytes)
}

/// Writes the bytes that [`to_bytes_with`] returns, without having all of them in memory.
///
/// # Errors
///
/// In the case of [`to_bytes_with`], or if `to` cannot be written.
///
/// # Panics
///
/// In the case of [`to_bytes_with`].
pub fn write(
    to: &mut impl Write,
    parameters: &Parameters,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let mut tensors = encode(parameters, dtype)?;
    // The writer of the `safetensors` crate has the same order. Larger element types come first,
    // which aligns the elements.
    tensors.sort_by(|(name, one), (other, two)| two.dtype.cmp(&one.dtype).then(name.cmp(other)));
    let mut end = 0;
    let infos = tensors.iter().map(|(name, tensor)| {
        let start = end;
        end += tensor.elements.length();
        let info = FileInfo {
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            data_offsets: (start, end),
        };
        (name.clone(), info)
    });
    let infos = infos.collect();
    let header = Metadata::new(None, infos);
    let header = header.map_err(|error| WeightsError::NotSafetensors(error.to_string()))?;
    let mut header = serde_json::to_vec(&header).expect("it is plain data");
    if !metadata.is_empty() {
        // `Metadata` has a hash map, whose order varies. Equal files need a fixed order.
        let entries = serde_json::to_string(metadata).expect("it is plain data");
        let rest = if tensors.is_empty() { "" } else { "," };
        let start = format!("{{\"__metadata__\":{entries}{rest}");
        header.splice(..1, start.into_bytes());
    }
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    let mut all = |bytes: &[u8]| {
        to.write_all(bytes)
            .map_err(|error| WeightsError::File(error.to_string()))
    };
    all(&length)?;
    all(&header)?;
    for (_, Encoded { elements, .. }) in &tensors {
        match elements {
            Elements::Bytes(bytes) => all(bytes)?,
            Elements::F16(data) => rounded(data, |x| f16::from_f32(x).to_le_bytes(), &mut all)?,
            Elements::Bf16(data) => rounded(data, |x| bf16::from_f32(x).to_le_bytes(), &mut all)?,
        }
    }
    Ok(())
}

/// Rounds the f32 elements of a tensor, and passes their bytes to `all`, at most `ROUNDED` elements
/// at a time.
fn rounded(
    data: &TensorData,
    round: impl Fn(f32) -> [u8; 2],
    all: &mut impl FnMut(&[u8]) -> Result<(), WeightsError>,
) -> Result<(), WeightsError> {
    let elements = data.as_slice::<f32>().expect("it was checked to be f32");
    let mut chunks = elements.chunks(ROUNDED);
    chunks.try_for_each(|some| {
        let bytes: Vec<u8> = some.iter().flat_map(|&x| round(x)).collect();
        all(&bytes)
    })
}

/// A tensor as it is written to a file.
struct Encoded<'a> {
    dtype: FileDtype,
    shape: Vec<usize>,
    elements: Elements<'a>,
}

enum Elements<'a> {
    Bytes(Cow<'a, [u8]>),
    /// Elements in f32, which are rounded to half precision when they are written.
    F16(&'a TensorData),
    /// Elements in f32, which are rounded to bfloat16 when they are written.
    Bf16(&'a TensorData),
}

impl Elements<'_> {
    /// Returns the number of bytes that the elements have in the file.
    fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::F16(data) | Self::Bf16(data) => 2 * data.num_elements(),
        }
    }
}

/// Returns the tensors of a file with these parameters, and their names in the file.
fn encode(
    parameters: &Parameters,
    dtype: Dtype,
) -> Result<Vec<(String, Encoded<'_>)>, WeightsError> {
    let mut tensors = Vec::new();
    for (name, data) in parameters {
        let quantized = match axis(name) {
            Some(axis) if dtype == Dtype::Int8 && data.dtype() == DType::F32 => {
                fused::quantize_int8_data(data, axis)
            }
            _ => None,
        };
        if let Some(matrix) = Int8::of(quantized.as_ref().unwrap_or(data)) {
            let of = |dtype, shape: [usize; 2], bytes: &[u8]| Encoded {
                dtype,
                shape: shape.to_vec(),
                elements: Elements::Bytes(bytes.to_vec().into()),
            };
            let integers = of(FileDtype::I8, matrix.shape, matrix.integers);
            tensors.push((name.clone(), integers));
            let scales = of(FileDtype::F32, matrix.scales_shape(), matrix.scales);
            tensors.push((scales_of(name), scales));
            continue;
        }
        if data.dtype() != DType::F32 {
            return Err(WeightsError::Dtype {
                name: name.clone(),
                dtype: data.dtype().name().into(),
                expected: "f32, or a matrix of quantize_int8",
            });
        }
        let (dtype, elements) = match dtype {
            Dtype::F32 | Dtype::Int8 => (FileDtype::F32, Elements::Bytes(data.as_bytes().into())),
            Dtype::F16 => (FileDtype::F16, Elements::F16(data)),
            Dtype::BF16 => (FileDtype::BF16, Elements::Bf16(data)),
        };
        let shape = data.shape().to_vec();
        tensors.push((
            name.clone(),
            Encoded {
                dtype,
                shape,
                elements,
            },
        ));
    }
    Ok(tensors)
}
