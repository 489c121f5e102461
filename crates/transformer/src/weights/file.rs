//! Files of weights: safetensors, and what `torch.save` writes.
//!
//! Opening a file judges its header and reads nothing else; a tensor is read when it is asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use burn::tensor::{DType, TensorData, bf16, f16};

use super::WeightsError;
use super::safetensors::SafetensorsFile;

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Type of its numbers.
    pub dtype: DType,
    /// Its axes, as in the file.
    pub shape: Vec<usize>,
    /// The entry of the file's outermost dictionary that it stands in, where that is a dictionary of
    /// its own, as `model` in `{"model": {..}, "optimizer": {..}}`.
    pub group: Option<String>,
}

/// Something in a file that is neither a tensor nor a plain container of them. It has not been
/// executed, and never will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignObject {
    /// Where it stands.
    pub path: String,
    /// The Python class or function that it asks for.
    pub class: String,
}

/// An open file of weights.
#[derive(Debug)]
pub struct WeightsFile {
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) foreign: Vec<ForeignObject>,
    format: &'static str,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Safetensors(SafetensorsFile),
    #[cfg(feature = "pytorch")]
    PyTorch(super::pytorch::PyTorchFile),
}

impl WeightsFile {
    /// Opens a safetensors file or, with the feature `pytorch`, a PyTorch checkpoint; which of them
    /// it is, its first bytes say.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, that is neither, or whose header does not fit the rest of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(|error| WeightsError::io(&error))?;
        let about = file.metadata().map_err(|error| WeightsError::io(&error))?;
        if about.is_dir() {
            return Err(WeightsError::File("is a folder".into()));
        }
        let mut start = Vec::new();
        (&mut file)
            .take(262)
            .read_to_end(&mut start)
            .map_err(|error| WeightsError::io(&error))?;
        if start.is_empty() {
            return Err(WeightsError::File("is empty".into()));
        }
        if is_pytorch(&start) {
            return Self::open_pytorch(path, about.len());
        }
        let (source, tensors, metadata) = SafetensorsFile::open(file, about.len())?;
        Ok(Self {
            tensors,
            metadata,
            foreign: Vec::new(),
            format: "safetensors",
            source: Source::Safetensors(source),
        })
    }

    #[cfg(feature = "pytorch")]
    fn open_pytorch(path: &Path, bytes: u64) -> Result<Self, WeightsError> {
        let (source, format, tensors, foreign) = super::pytorch::PyTorchFile::open(path, bytes)?;
        Ok(Self {
            tensors,
            metadata: BTreeMap::new(),
            foreign,
            format,
            source: Source::PyTorch(source),
        })
    }

    #[cfg(not(feature = "pytorch"))]
    fn open_pytorch(_: &Path, _: u64) -> Result<Self, WeightsError> {
        let what = "is a PyTorch checkpoint, which takes the crate's feature `pytorch` to read";
        Err(WeightsError::File(what.into()))
    }

    /// What kind of file it is, in words.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// The tensors, by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// Text that a safetensors file has beside its tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// What else stands in the file.
    pub fn foreign_objects(&self) -> &[ForeignObject] {
        &self.foreign
    }

    /// A tensor's numbers, as f32; those of f16 and bf16 all are, those of f64 are rounded.
    ///
    /// # Errors
    ///
    /// If there is no such tensor, it does not hold floating-point numbers, or it cannot be read.
    pub fn read(&self, name: &str) -> Result<TensorData, WeightsError> {
        let info = self.tensors.get(name).ok_or_else(|| {
            let name = name.to_string();
            WeightsError::Missing { name, others: 0 }
        })?;
        if !is_float(info.dtype) {
            return Err(WeightsError::Precision {
                name: name.into(),
                dtype: info.dtype.name().into(),
            });
        }
        let bytes = match &self.source {
            Source::Safetensors(file) => file.read(name)?,
            #[cfg(feature = "pytorch")]
            Source::PyTorch(file) => file.read(name)?,
        };
        let numbers = to_f32(info.dtype, &bytes);
        Ok(TensorData::new(numbers, info.shape.clone()))
    }
}

fn is_pytorch(start: &[u8]) -> bool {
    // A ZIP archive; a pickle, protocol 2 and later; a TAR archive.
    start.starts_with(b"PK\x03\x04")
        || matches!(start, [0x80, 2..=5, ..])
        || start.get(257..262) == Some(b"ustar")
}

/// Whether a file's numbers of this type can become a model's.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// # Panics
///
/// If these are no floating-point numbers.
fn to_f32(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    fn numbers<const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&x| from(x)).collect()
    }
    match dtype {
        DType::F32 => numbers(bytes, f32::from_le_bytes),
        DType::F16 => numbers(bytes, |x| f16::from_le_bytes(x).to_f32()),
        DType::BF16 => numbers(bytes, |x| bf16::from_le_bytes(x).to_f32()),
        DType::F64 => numbers(bytes, |x| f64::from_le_bytes(x) as f32),
        other => unreachable!("{other:?} was refused"),
    }
}
