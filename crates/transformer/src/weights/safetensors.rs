//! Safetensors files: a header in JSON, followed by the tensors' elements.

mod open;
mod write;

use std::collections::BTreeMap;
use std::fs::File;

use burn::tensor::TensorData;

use super::element::{check_float, extend_f32};
use super::error::WeightsError;
use super::header::{INT8, TensorInfo};
use super::parameters::Parameters;

pub(super) use open::{Bytes, SafetensorsFile};
pub use write::{Dtype, to_bytes, to_bytes_with, write};

/// Maximum number of bytes of a tensor that are read at a time, unless a single row is larger or
/// the tensor is a quantised matrix.
pub(super) const CHUNK: usize = 1 << 18;

/// Reads the parameters of a safetensors file, one after the other, without having the file in
/// memory.
///
/// # Errors
///
/// The file cannot be read, is not a safetensors file, is truncated, or has a tensor that is
/// neither f32, f16, bf16 or f64, which become f32, nor a valid quantised matrix.
pub fn read_file(file: &File) -> Result<Parameters, WeightsError> {
    let file = file.try_clone().map_err(|error| WeightsError::io(&error))?;
    read_all(Bytes::Disk(file))
}

/// Reads the parameters from the bytes of a safetensors file.
///
/// # Errors
///
/// The bytes are not a safetensors file, are truncated, or have a tensor that is neither f32, f16,
/// bf16 or f64, which become f32, nor a valid quantised matrix.
pub fn from_bytes(bytes: &[u8]) -> Result<Parameters, WeightsError> {
    read_all(Bytes::Memory(bytes.into()))
}

fn read_all(bytes: Bytes<'_>) -> Result<Parameters, WeightsError> {
    let (file, tensors, _) = SafetensorsFile::open(bytes)?;
    let mut parameters = Parameters::new();
    for (name, TensorInfo { dtype, shape, .. }) in tensors {
        let data = match dtype.as_str() {
            INT8 => file.read_int8(&name, &shape)?,
            _ => {
                check_float(&name, &dtype)?;
                let mut elements = Vec::with_capacity(shape.iter().product());
                file.read_chunks(&name, 0..usize::MAX, CHUNK, |bytes| {
                    extend_f32(&mut elements, &dtype, bytes);
                    Ok(())
                })?;
                TensorData::new(elements, shape)
            }
        };
        parameters.insert(name, data);
    }
    Ok(parameters)
}

/// Reads the metadata from the bytes of a safetensors file.
///
/// # Errors
///
/// The bytes are not a safetensors file, or are truncated.
pub fn metadata_of(bytes: &[u8]) -> Result<BTreeMap<String, String>, WeightsError> {
    let (.., metadata) = SafetensorsFile::open(Bytes::Memory(bytes.into()))?;
    Ok(metadata)
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
