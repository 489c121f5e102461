//! Safetensors files: a header in JSON, followed by the tensors' elements.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use ::safetensors::tensor::{Dtype as FileDtype, Metadata, SafeTensors, TensorView};
use burn::tensor::{DType, TensorData, bf16, f16};

use super::error::WeightsError;
use super::header::TensorInfo;
use super::parameters::Parameters;
use crate::choice::choices;

/// Maximum header length in bytes, the same as in the reader of the `safetensors` crate.
const MAX_HEADER: u64 = 100_000_000;

/// An open safetensors file whose header has been checked.
#[derive(Debug)]
pub(super) struct SafetensorsFile {
    file: File,
    /// Offset in the file and length of each tensor, both in bytes.
    locations: BTreeMap<String, (u64, usize)>,
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
            return Err(WeightsError::File(format!(
                "is neither a PyTorch checkpoint nor a whole safetensors file (its header would have {length} bytes, of {bytes} in the file)"
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
        // `safetensors.torch.save_model` writes tensors that share memory only once. The metadata
        // lists their other names.
        for (name, kept) in header.metadata().iter().flatten() {
            if let (Some(info), false) = (tensors.get(kept), tensors.contains_key(name)) {
                let (info, location) = (TensorInfo::clone(info), locations[kept]);
                tensors.insert(name.clone(), info);
                locations.insert(name.clone(), location);
            }
        }
        let metadata = header.metadata().iter().flatten();
        let metadata = metadata.map(|(key, text)| (key.clone(), text.clone()));
        Ok((Self { file, locations }, tensors, metadata.collect()))
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
}

choices!(Dtype, "dtype", {
    F32: "f32", "Exact";
    F16: "f16", "Half the size, values up to 65,504";
    BF16: "bf16", "Half the size, 3 significant digits";
});

/// Returns the bytes of a safetensors file with these parameters.
///
/// # Errors
///
/// A parameter is not f32.
pub fn to_bytes(parameters: &Parameters) -> Result<Vec<u8>, WeightsError> {
    to_bytes_with(parameters, Dtype::F32, &BTreeMap::new())
}

/// Returns the bytes of a safetensors file with these parameters, rounded to `dtype`, and with
/// `metadata`.
///
/// # Errors
///
/// A parameter is not f32.
pub fn to_bytes_with(
    parameters: &Parameters,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let mut rounded = Vec::with_capacity(parameters.len());
    for (name, data) in parameters {
        if data.dtype() != DType::F32 {
            return Err(WeightsError::Dtype {
                name: name.clone(),
                dtype: data.dtype().name().into(),
                expected: "f32",
            });
        }
        let elements = || data.iter::<f32>();
        rounded.push(match dtype {
            Dtype::F32 => data.as_bytes().into(),
            Dtype::F16 => elements()
                .flat_map(|x| f16::from_f32(x).to_le_bytes())
                .collect(),
            Dtype::BF16 => elements()
                .flat_map(|x| bf16::from_f32(x).to_le_bytes())
                .collect(),
        });
    }
    let file_dtype = match dtype {
        Dtype::F32 => FileDtype::F32,
        Dtype::F16 => FileDtype::F16,
        Dtype::BF16 => FileDtype::BF16,
    };
    let bytes: Vec<std::borrow::Cow<[u8]>> = rounded;
    let views = parameters.iter().zip(&bytes).map(|((name, data), bytes)| {
        let view = TensorView::new(file_dtype, data.shape().to_vec(), bytes);
        Ok((name, view.map_err(file)?))
    });
    let views = views.collect::<Result<Vec<_>, _>>()?;
    // The format's writer takes a hash map, so the order of several metadata entries in the file
    // may vary.
    let metadata = metadata
        .iter()
        .map(|(key, text)| (key.clone(), text.clone()));
    let metadata: std::collections::HashMap<_, _> = metadata.collect();
    let metadata = (!metadata.is_empty()).then_some(metadata);
    ::safetensors::serialize(views, metadata).map_err(file)
}

/// Reads the parameters from the bytes of a safetensors file.
///
/// # Errors
///
/// The bytes are not a safetensors file, are truncated, or have a tensor that is not f32.
pub fn from_bytes(bytes: &[u8]) -> Result<Parameters, WeightsError> {
    let file = SafeTensors::deserialize(bytes).map_err(self::file)?;
    let tensor = |(name, view): (String, TensorView<'_>)| {
        if view.dtype() != FileDtype::F32 {
            let dtype = format!("{:?}", view.dtype()).to_lowercase();
            let expected = "f32";
            return Err(WeightsError::Dtype {
                name,
                dtype,
                expected,
            });
        }
        let elements = view.data().as_chunks::<4>().0.iter();
        let elements: Vec<f32> = elements.map(|&bytes| f32::from_le_bytes(bytes)).collect();
        Ok((name, TensorData::new(elements, view.shape().to_vec())))
    };
    file.tensors().into_iter().map(tensor).collect()
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
