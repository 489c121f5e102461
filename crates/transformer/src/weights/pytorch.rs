//! What `torch.save` writes: a pickle that describes objects, and the numbers beside it.
//!
//! The pickle is read, never executed. Tensors and plain containers are understood; whatever else
//! stands in it is listed with the class that it asks for.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use burn::tensor::DType;
use pytorch_reader::{FileFormat, PickleValue, PytorchReader, Tensor};

use super::WeightsError;
use super::file::{ForeignObject, TensorInfo};

/// An open checkpoint.
#[derive(Debug)]
pub(super) struct PyTorchFile {
    tensors: HashMap<String, Tensor>,
}

type Opened = (
    PyTorchFile,
    &'static str,
    BTreeMap<String, TensorInfo>,
    Vec<ForeignObject>,
);

impl PyTorchFile {
    /// Reads what the checkpoint, a file of `bytes` bytes, says of itself.
    pub fn open(path: &Path, bytes: u64) -> Result<Opened, WeightsError> {
        let wrong = |error: pytorch_reader::PytorchError| WeightsError::PyTorch(error.to_string());
        let reader = PytorchReader::new(path).map_err(wrong)?;
        let root = PytorchReader::read_pickle_data(path, None).map_err(wrong)?;
        let format = match reader.metadata().format_type {
            FileFormat::Zip => "PyTorch checkpoint",
            FileFormat::Legacy => "PyTorch checkpoint of the time before 1.6",
            FileFormat::Tar => "PyTorch checkpoint of the time before 0.1.10",
            FileFormat::Pickle => "pickle",
        };
        let mut objects = Objects::default();
        objects.walk(&root, &mut String::new());
        let tensors = reader.into_tensors();
        if objects.tensors != tensors.len() {
            let what = "two of its tensors have the same name".into();
            return Err(WeightsError::PyTorch(what));
        }
        // Views may claim any size: every element of an expanded tensor is the same number.
        let claimed: u64 = tensors
            .values()
            .map(|tensor| tensor.byte_len() as u64)
            .sum();
        if claimed > 16 * bytes {
            let what = format!("its tensors claim {claimed} bytes, but the file has {bytes}");
            return Err(WeightsError::PyTorch(what));
        }
        let groups = groups(&root);
        let info = |(name, tensor): (&String, &Tensor)| {
            let group = groups.iter().find(|group| {
                name.strip_prefix(group.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
            });
            let info = TensorInfo {
                dtype: dtype(tensor.dtype()),
                shape: tensor.shape().to_vec(),
                group: group.cloned(),
            };
            (name.clone(), info)
        };
        let infos = tensors.iter().map(info).collect();
        Ok((Self { tensors }, format, infos, objects.foreign))
    }

    /// The bytes of a tensor that the file has.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let bytes = self.tensors[name].read();
        bytes.map_err(|error| WeightsError::PyTorch(error.to_string()))
    }
}

/// The entries of the outermost dictionary that are dictionaries.
fn groups(root: &PickleValue) -> Vec<String> {
    let PickleValue::Dict(entries) = root else {
        return Vec::new();
    };
    let is_group = |(key, value): (&String, &PickleValue)| match value {
        PickleValue::Dict(_) => Some(key.clone()),
        _ => None,
    };
    entries.iter().filter_map(is_group).collect()
}

#[derive(Default)]
struct Objects {
    tensors: usize,
    foreign: Vec<ForeignObject>,
}

impl Objects {
    fn walk(&mut self, value: &PickleValue, path: &mut String) {
        let length = path.len();
        let enter = |this: &mut Self, key: &str, value: &PickleValue, path: &mut String| {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            this.walk(value, path);
            path.truncate(length);
        };
        match value {
            PickleValue::Dict(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    enter(self, key, value, path);
                }
            }
            PickleValue::List(items) => {
                for (index, value) in items.iter().enumerate() {
                    enter(self, &index.to_string(), value, path);
                }
            }
            PickleValue::Unsupported(class) => match class.as_str() {
                "torch.Tensor" => self.tensors += 1,
                // A whole number of more than 64 bits.
                "int" => {}
                class => self.foreign.push(ForeignObject {
                    path: path.clone(),
                    class: class.into(),
                }),
            },
            _ => {}
        }
    }
}

fn dtype(dtype: pytorch_reader::DType) -> DType {
    use pytorch_reader::DType as Of;
    match dtype {
        Of::F64 => DType::F64,
        Of::F32 => DType::F32,
        Of::F16 => DType::F16,
        Of::BF16 => DType::BF16,
        Of::I64 => DType::I64,
        Of::I32 => DType::I32,
        Of::I16 => DType::I16,
        Of::I8 => DType::I8,
        Of::U64 => DType::U64,
        Of::U32 => DType::U32,
        Of::U16 => DType::U16,
        Of::U8 => DType::U8,
        Of::Bool => DType::Bool(burn::tensor::BoolStore::Native),
    }
}
