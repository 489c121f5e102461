//! PyTorch checkpoints, as `torch.save` writes them: a pickle of objects, and the elements of the
//! tensors.
//!
//! The pickle is read, never executed. Tensors and plain data are read. Other objects are only
//! listed, with the class to which they refer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use pytorch_reader::{FileFormat, PickleValue, PytorchReader, Tensor};

use super::error::WeightsError;
use super::header::{ForeignObject, TensorInfo};
use super::pickle;

/// An open checkpoint.
#[derive(Debug)]
pub(super) struct PyTorchFile {
    tensors: HashMap<String, Tensor>,
    /// Names of negated views, whose elements have the other sign in the file.
    negated: BTreeSet<String>,
}

type Opened = (
    PyTorchFile,
    &'static str,
    BTreeMap<String, TensorInfo>,
    Vec<ForeignObject>,
);

impl PyTorchFile {
    /// Opens a checkpoint of `bytes` bytes and reads its pickle.
    pub fn open(path: &Path, bytes: u64) -> Result<Opened, WeightsError> {
        let wrong = |error: pytorch_reader::PytorchError| WeightsError::PyTorch(error.to_string());
        let keys = pickle::check_file(path)?;
        let reader = PytorchReader::new(path).map_err(wrong)?;
        let root = PytorchReader::read_pickle_data(path, None).map_err(wrong)?;
        let format = match reader.metadata().format_type {
            FileFormat::Zip => "PyTorch checkpoint",
            FileFormat::Legacy => "PyTorch checkpoint (before version 1.6)",
            FileFormat::Pickle | FileFormat::Tar => "pickle",
        };
        let mut objects = Objects::default();
        objects.walk(&root, &mut String::new());
        let tensors = reader.into_tensors();
        if objects.tensors != tensors.len() {
            let what = "two of its tensors have the same name".into();
            return Err(WeightsError::PyTorch(what));
        }
        let negated = negated(keys, &tensors)?;
        // The elements of a tensor that `Tensor.expand` returned share memory, so a small file can
        // describe tensors that would exhaust the memory. All tensors together may therefore have
        // at most 16 times the size of the file.
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
            let dots = name.match_indices('.').map(|(place, _)| &name[..place]);
            let group = dots.rev().find(|start| groups.contains(*start));
            let info = TensorInfo {
                dtype: format!("{:?}", tensor.dtype()).to_lowercase(),
                shape: tensor.shape().to_vec(),
                group: group.map(String::from),
            };
            (name.clone(), info)
        };
        let infos = tensors.iter().map(info).collect();
        Ok((Self { tensors, negated }, format, infos, objects.foreign))
    }

    /// Reads the bytes of a tensor, which must be in the file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let tensor = &self.tensors[name];
        let bytes = tensor.read();
        let mut bytes = bytes.map_err(|error| WeightsError::PyTorch(error.to_string()))?;
        if self.negated.contains(name) {
            // The sign is the highest bit of the last byte.
            for element in bytes.chunks_mut(tensor.dtype().size()) {
                element[element.len() - 1] ^= 0x80;
            }
        }
        Ok(bytes)
    }
}

/// Returns the names of the negated views, given their keys in the dictionaries that hold them.
fn negated(
    keys: Vec<String>,
    tensors: &HashMap<String, Tensor>,
) -> Result<BTreeSet<String>, WeightsError> {
    let name = |key: String| {
        let has_key = |name: &&String| **name == key || name.ends_with(&format!(".{key}"));
        let mut found = tensors.keys().filter(has_key);
        match (found.next(), found.next()) {
            (Some(name), None) => Ok(name.clone()),
            _ => Err(WeightsError::PyTorch(format!(
                "its tensor {key} is a negated view, which cannot be told from others of this key: save its resolve_neg()"
            ))),
        }
    };
    keys.into_iter().map(name).collect()
}

/// Returns the keys of the outermost dictionary whose values are dictionaries.
fn groups(root: &PickleValue) -> BTreeSet<String> {
    let PickleValue::Dict(entries) = root else {
        return BTreeSet::new();
    };
    let is_group = |(key, value): (&String, &PickleValue)| match value {
        PickleValue::Dict(_) => Some(key.clone()),
        _ => None,
    };
    entries.iter().filter_map(is_group).collect()
}

/// The objects in a pickle: the number of tensors, and a list of the foreign objects.
#[derive(Default)]
struct Objects {
    tensors: usize,
    foreign: Vec<ForeignObject>,
}

impl Objects {
    /// Counts or lists the objects in `value`, which is at `path` in the pickle.
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
                // Integers of more than 64 bits are plain data, but the reader does not support
                // them.
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
