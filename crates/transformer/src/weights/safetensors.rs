//! Safetensors files: a header in JSON, followed by the tensors' elements.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use ::safetensors::tensor::{
    Dtype as FileDtype, Metadata, SafeTensors, TensorInfo as FileInfo, TensorView,
};
use burn::tensor::{DType, TensorData, bf16, f16};

use super::error::WeightsError;
use super::header::{INT8, TensorInfo};
use super::int8::{self, Int8, axis, floats, scales_of};
use super::parameters::Parameters;
use crate::choice::choices;

/// Maximum header length in bytes, the same as in the reader of the `safetensors` crate.
const MAX_HEADER: u64 = 100_000_000;

/// Bytes of a tensor that are read at a time, if a row does not have more.
pub(super) const CHUNK: usize = 1 << 19;

/// An open safetensors file whose header has been checked.
#[derive(Debug)]
pub(super) struct SafetensorsFile {
    file: File,
    /// Offset in the file and length of each tensor, both in bytes.
    locations: BTreeMap<String, (u64, usize)>,
    /// Shapes of the scales of quantised matrices, by the names of the matrices.
    scales: BTreeMap<String, Vec<usize>>,
}

type Opened = (
    SafetensorsFile,
    BTreeMap<String, TensorInfo>,
    BTreeMap<String, String>,
);

impl SafetensorsFile {
    /// Reads and checks the header of a file of `bytes` bytes.
    pub fn open(mut file: File, bytes: u64) -> Result<Opened, WeightsError> {
        let io = |error: std::io::Error| WeightsError::io(&error);
        let not_whole = |what: String| WeightsError::NotSafetensors(what);
        if bytes < 8 {
            return Err(not_whole(format!("it has only {bytes} bytes")));
        }
        let mut length = [0; 8];
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if !(2..=MAX_HEADER).contains(&length) || length > bytes - 8 {
            return Err(not_whole(format!(
                "its header would have {length} bytes, of {bytes} in the file"
            )));
        }
        let mut header = vec![0; usize::try_from(length).expect("the header length was checked")];
        file.read_exact(&mut header).map_err(io)?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| not_whole(format!("its header: {error}")))?;
        let (start, data) = (8 + length, header.data_len() as u64);
        if start.checked_add(data) != Some(bytes) {
            let what = format!(
                "its header describes a file of {} bytes, but it has {bytes}",
                start.saturating_add(data)
            );
            return Err(not_whole(what));
        }
        let (mut tensors, mut locations) = (BTreeMap::new(), BTreeMap::new());
        for (name, info) in header.tensors() {
            let dtype = format!("{:?}", info.dtype).to_lowercase();
            let (from, to) = info.data_offsets;
            locations.insert(name.clone(), (start + from as u64, to - from));
            let shape = info.shape.clone();
            let group = None;
            tensors.insert(
                name,
                TensorInfo {
                    dtype,
                    shape,
                    group,
                },
            );
        }
        // If several tensors share memory, `safetensors.torch.save_model` writes only one of them.
        // The metadata maps the names of the others to the name of this one.
        for (name, kept) in header.metadata().iter().flatten() {
            if let (Some(info), false) = (tensors.get(kept), tensors.contains_key(name)) {
                let (info, location) = (TensorInfo::clone(info), locations[kept]);
                tensors.insert(name.clone(), info);
                locations.insert(name.clone(), location);
            }
        }
        let scales = take_scales(&mut tensors);
        let metadata = header.metadata().iter().flatten();
        let metadata = metadata.map(|(key, text)| (key.clone(), text.clone()));
        let file = Self {
            file,
            locations,
            scales,
        };
        Ok((file, tensors, metadata.collect()))
    }

    /// Reads the bytes of a tensor, which must be in the file, in chunks of `length` bytes.
    pub fn read_chunks(
        &self,
        name: &str,
        length: usize,
        mut each: impl FnMut(&[u8]) -> Result<(), WeightsError>,
    ) -> Result<(), WeightsError> {
        let io = |error: std::io::Error| WeightsError::io(&error);
        let (offset, mut left) = self.locations[name];
        let mut bytes = vec![0; length.min(left)];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        while left > 0 {
            let next = &mut bytes[..length.min(left)];
            file.read_exact(next).map_err(io)?;
            left -= next.len();
            each(next)?;
        }
        Ok(())
    }

    /// Returns whether two names have their bytes in one place.
    pub fn is_one_place(&self, name: &str, other: &str) -> bool {
        self.locations.get(name) == self.locations.get(other)
    }

    /// Reads the bytes of a tensor, which must be in the file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let (offset, length) = self.locations[name];
        let mut bytes = vec![0; length];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| WeightsError::io(&error))?;
        Ok(bytes)
    }

    /// Reads a quantised matrix, which must be in the file.
    pub fn read_int8(&self, name: &str, shape: &[usize]) -> Result<TensorData, WeightsError> {
        let scales = self.read(&scales_of(name))?;
        int8::from_file(name, self.read(name)?, shape, &scales, &self.scales[name])
    }
}

/// Marks quantised matrices: each matrix of 8-bit integers that has scales gets the element type
/// `int8`, and its scales are removed from `tensors`. Returns the shapes of the scales, by the
/// names of the matrices.
fn take_scales(tensors: &mut BTreeMap<String, TensorInfo>) -> BTreeMap<String, Vec<usize>> {
    let is_matrix = |name: &String| {
        let scales = tensors.get(&scales_of(name));
        tensors[name].dtype == "i8" && scales.is_some_and(|scales| scales.dtype == "f32")
    };
    let names: Vec<String> = tensors
        .keys()
        .filter(|name| is_matrix(name))
        .cloned()
        .collect();
    let mut shapes = BTreeMap::new();
    for name in names {
        if let (Some(scales), Some(matrix)) =
            (tensors.remove(&scales_of(&name)), tensors.get_mut(&name))
        {
            matrix.dtype = INT8.into();
            shapes.insert(name, scales.shape);
        }
    }
    shapes
}

/// Element type of the tensors that are written to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dtype {
    /// Elements are written exactly.
    #[default]
    F32,
    /// Elements are rounded to half precision; values beyond 65,504 become infinite.
    F16,
    /// Elements are rounded to bfloat16, which has the exponent of f32 and 8 bits of precision.
    BF16,
    /// The weights of linear layers and the embedding tables are quantised to 8 bits, as by
    /// [`quantize_int8`](super::quantize_int8()). They are found by the names that this crate gives
    /// them. Other parameters are written exactly.
    Int8,
}

choices!(Dtype, "dtype", {
    F32: "f32", "Exact";
    F16: "f16", "Half the size, values up to 65,504";
    BF16: "bf16", "Half the size, 3 significant digits";
    Int8: "int8", "A quarter of the size: 8 bits with a scale for each block; layout native only";
});

/// Returns the bytes of a safetensors file with these parameters.
///
/// Quantised matrices stay quantised.
///
/// # Errors
///
/// A parameter is neither f32 nor quantised by [`quantize_int8`](super::quantize_int8()).
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
/// A parameter is neither f32 nor quantised by [`quantize_int8`](super::quantize_int8()).
pub fn to_bytes_with(
    parameters: &Parameters,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let mut bytes = Vec::new();
    write(&mut bytes, parameters, dtype, metadata)?;
    Ok(bytes)
}

/// Writes the bytes that [`to_bytes_with`] returns, without having them in memory.
///
/// # Errors
///
/// In the same case, or if `to` cannot be written.
pub fn write(
    to: &mut impl Write,
    parameters: &Parameters,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let mut tensors = encode(parameters, dtype)?;
    // The order of the format's own writer, which aligns the elements.
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
    // `Metadata` has a hash map, so the order of several entries in the file may vary.
    let entries = metadata.clone().into_iter();
    let entries = (!metadata.is_empty()).then(|| entries.collect());
    let header = Metadata::new(entries, infos).map_err(file)?;
    let mut header = serde_json::to_vec(&header).expect("it is plain data");
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    let mut all = |bytes: &[u8]| {
        to.write_all(bytes)
            .map_err(|error| WeightsError::File(format!("cannot be written ({error})")))
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

/// Rounds the elements of a tensor in f32, and passes them on, some at a time.
fn rounded(
    data: &TensorData,
    round: impl Fn(f32) -> [u8; 2],
    all: &mut impl FnMut(&[u8]) -> Result<(), WeightsError>,
) -> Result<(), WeightsError> {
    let elements = data.as_slice::<f32>().expect("it was checked to be f32");
    let mut chunks = elements.chunks(CHUNK);
    chunks.try_for_each(|some| {
        let bytes: Vec<u8> = some.iter().flat_map(|&x| round(x)).collect();
        all(&bytes)
    })
}

/// A tensor as a file holds it.
struct Encoded<'a> {
    dtype: FileDtype,
    shape: Vec<usize>,
    elements: Elements<'a>,
}

enum Elements<'a> {
    Bytes(Cow<'a, [u8]>),
    /// Elements in f32, which are rounded when they are written.
    F16(&'a TensorData),
    /// The same.
    Bf16(&'a TensorData),
}

impl Elements<'_> {
    /// Returns the number of bytes in the file.
    fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::F16(data) | Self::Bf16(data) => 2 * data.num_elements(),
        }
    }
}

/// Returns parameters as a file holds them, by their names in the file.
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

/// Reads the parameters of a safetensors file, one after the other, without having the file in
/// memory.
///
/// # Errors
///
/// The file cannot be read, is not a safetensors file, is truncated, or has a tensor that is neither
/// f32 nor a quantised matrix.
pub fn read_file(file: &File) -> Result<Parameters, WeightsError> {
    let io = |error: std::io::Error| WeightsError::io(&error);
    let bytes = file.metadata().map_err(io)?.len();
    let (file, tensors, _) = SafetensorsFile::open(file.try_clone().map_err(io)?, bytes)?;
    let mut parameters = Parameters::new();
    for (name, TensorInfo { dtype, shape, .. }) in tensors {
        let data = match dtype.as_str() {
            INT8 => file.read_int8(&name, &shape)?,
            "f32" => {
                let mut elements = Vec::with_capacity(shape.iter().product());
                file.read_chunks(&name, CHUNK, |bytes| {
                    elements.extend(floats(bytes));
                    Ok(())
                })?;
                TensorData::new(elements, shape)
            }
            _ => return Err(not_f32(&name, &dtype)),
        };
        parameters.insert(name, data);
    }
    Ok(parameters)
}

/// Reads the parameters from the bytes of a safetensors file.
///
/// # Errors
///
/// The bytes are not a safetensors file, are truncated, or have a tensor that is neither f32 nor a
/// quantised matrix.
pub fn from_bytes(bytes: &[u8]) -> Result<Parameters, WeightsError> {
    let file = SafeTensors::deserialize(bytes).map_err(self::file)?;
    let mut views: BTreeMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let is_matrix = |(_, view): &(&String, &TensorView<'_>)| view.dtype() == FileDtype::I8;
    let matrices: Vec<String> = views
        .iter()
        .filter(is_matrix)
        .map(|(name, _)| name.clone())
        .collect();
    let mut parameters = Parameters::new();
    for name in matrices {
        let matrix = views
            .remove(&name)
            .expect("the names are those of the views");
        let of_scales = scales_of(&name);
        let scales = views.remove(&of_scales);
        let scales = scales.ok_or_else(|| WeightsError::missing([&of_scales]))?;
        check_f32(&of_scales, &scales)?;
        let (integers, shape) = (matrix.data().to_vec(), matrix.shape());
        let data = int8::from_file(&name, integers, shape, scales.data(), scales.shape())?;
        parameters.insert(name, data);
    }
    for (name, view) in views {
        check_f32(&name, &view)?;
        let elements: Vec<f32> = floats(view.data()).collect();
        parameters.insert(name, TensorData::new(elements, view.shape().to_vec()));
    }
    Ok(parameters)
}

/// Reads the metadata from the bytes of a safetensors file.
///
/// # Errors
///
/// The bytes are not a safetensors file, or are truncated.
pub fn metadata_of(bytes: &[u8]) -> Result<BTreeMap<String, String>, WeightsError> {
    SafeTensors::deserialize(bytes).map_err(self::file)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(self::file)?;
    let metadata = header.metadata().iter().flatten();
    Ok(metadata
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect())
}

/// Rejects a tensor whose elements are not f32.
fn check_f32(name: &str, view: &TensorView<'_>) -> Result<(), WeightsError> {
    match view.dtype() {
        FileDtype::F32 => Ok(()),
        other => Err(not_f32(name, &format!("{other:?}").to_lowercase())),
    }
}

/// Returns the error for a tensor whose elements are not f32.
fn not_f32(name: &str, dtype: &str) -> WeightsError {
    WeightsError::Dtype {
        name: name.into(),
        dtype: dtype.into(),
        expected: "f32",
    }
}

/// Converts an error of the format's reader or writer.
fn file(error: ::safetensors::SafeTensorError) -> WeightsError {
    WeightsError::NotSafetensors(error.to_string())
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::choice::Choice;
    use crate::config::{TransformerConfig, WeightTying};
    use crate::model::Transformer;
    use crate::weights::parameters::{parameters, with_parameters};

    fn model(seed: u64, tying: WeightTying) -> Transformer {
        TransformerConfig::new(11, 11)
            .with_d_model(8)
            .with_n_heads(2)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1)
            .with_d_ff(6)
            .with_weight_tying(tying)
            .init_seeded(seed, &Device::flex())
            .unwrap()
    }

    #[test]
    fn parameters_survive_a_file_to_the_last_bit() {
        for tying in [WeightTying::None, WeightTying::Decoder, WeightTying::All] {
            let (one, other) = (model(1, tying), model(2, tying));
            let bytes = to_bytes(&parameters(&one)).unwrap();
            let read = with_parameters(&other, from_bytes(&bytes).unwrap()).unwrap();
            assert_eq!(parameters(&read), parameters(&one));
            assert_ne!(parameters(&read), parameters(&other));
            assert_eq!(to_bytes(&parameters(&read)).unwrap(), bytes);
        }
    }

    #[test]
    fn truncated_and_foreign_files_are_rejected() {
        let bytes = to_bytes(&parameters(&model(1, WeightTying::None))).unwrap();
        for length in (0..bytes.len()).step_by(53) {
            assert!(from_bytes(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(from_bytes(b"PK\x03\x04 something else, long enough").is_err());
    }

    #[test]
    fn dtypes_are_parsed_from_their_names() {
        for &dtype in Dtype::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        assert_eq!("bf16".parse(), Ok(Dtype::BF16));
    }
}
