//! Files of weights: safetensors and PyTorch checkpoints.
//!
//! Opening a file reads and checks only its header. Each tensor is read on request.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use burn::tensor::TensorData;

use super::element::{check_float, extend_f32, size_of_element};
use super::error::WeightsError;
use super::header::{ForeignObject, INT8, TensorInfo};
use super::int8::dequantize;
#[cfg(feature = "pytorch")]
use super::pytorch::PyTorchFile;
use super::safetensors::{Bytes, CHUNK, SafetensorsFile};

/// An open file of weights.
#[derive(Debug)]
pub struct WeightsFile {
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) foreign: Vec<ForeignObject>,
    format: &'static str,
    /// The file, or the shards of a model in several files.
    shards: Vec<Shard>,
    /// Index of the shard of each tensor that is not in the first shard.
    later: BTreeMap<String, usize>,
}

/// A file that holds all or some of the tensors.
#[derive(Debug)]
struct Shard {
    source: Source,
    /// The path of a file on the disk, and its length and modification time when it was opened.
    place: Option<(PathBuf, Stamp)>,
}

impl Shard {
    fn file_name(&self) -> Option<String> {
        let (path, _) = self.place.as_ref()?;
        Some(path.file_name()?.to_string_lossy().into_owned())
    }
}

/// Length of a file in bytes, and its modification time; `None` if the system does not provide it.
type Stamp = (u64, Option<SystemTime>);

fn stamp(about: &Metadata) -> Stamp {
    (about.len(), about.modified().ok())
}

#[derive(Debug)]
enum Source {
    Safetensors(SafetensorsFile<'static>),
    #[cfg(feature = "pytorch")]
    PyTorch(PyTorchFile),
}

impl WeightsFile {
    /// Opens a safetensors file or, with the feature `pytorch`, a PyTorch checkpoint.
    ///
    /// The format is recognised by the first bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read, has neither format, is damaged, or has a header that is too large.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        Self::open_path(path).map_err(|error| error.at(path))
    }

    fn open_path(path: &Path) -> Result<Self, WeightsError> {
        let about = std::fs::metadata(path).map_err(|error| WeightsError::io(&error))?;
        if about.is_dir() {
            return Err(WeightsError::File("is a folder".into()));
        }
        if !about.is_file() {
            return Err(WeightsError::File("is not a regular file".into()));
        }
        let mut file = File::open(path).map_err(|error| WeightsError::io(&error))?;
        let mut start = Vec::new();
        (&mut file)
            .take(16)
            .read_to_end(&mut start)
            .map_err(|error| WeightsError::io(&error))?;
        if start.is_empty() {
            return Err(WeightsError::File("is empty".into()));
        }
        if start.starts_with(b"version https://") {
            let what = "is a pointer of Git LFS: `git lfs pull` fetches the file itself";
            return Err(WeightsError::File(what.into()));
        }
        if is_pytorch(&start) {
            return Self::open_pytorch(path, &about);
        }
        // A safetensors file begins with the length of its header.
        let length = start
            .first_chunk()
            .map(|length| u64::from_le_bytes(*length));
        let is_plausible = length.is_none_or(|length| length < about.len());
        let mut opened = Self::safetensors(Bytes::Disk(file)).map_err(|error| match error {
            WeightsError::NotSafetensors(what) if !is_plausible => {
                let formats = "a PyTorch checkpoint nor a whole safetensors file";
                WeightsError::File(format!("is neither {formats} ({what})"))
            }
            error => error,
        })?;
        opened.shards[0].place = Some((path.into(), stamp(&about)));
        Ok(opened)
    }

    /// Opens a safetensors file that is in memory, such as one of a program that has no files, or
    /// that includes its weights.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    /// use transformer::weights::{WeightsFile, import, metadata, parameters, to_bytes_with};
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    /// let bytes = to_bytes_with(&parameters(&model), Default::default(), &metadata(&config))?;
    ///
    /// let imported = import(&WeightsFile::from_bytes(bytes)?, &Default::default())?;
    /// let same = imported.transformer(&Device::flex())?;
    /// assert_eq!(parameters(&same), parameters(&model));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The bytes are not a safetensors file, or are truncated.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, WeightsError> {
        Self::safetensors(Bytes::Memory(bytes.into().into()))
    }

    fn safetensors(bytes: Bytes<'static>) -> Result<Self, WeightsError> {
        let (source, tensors, metadata) = SafetensorsFile::open(bytes)?;
        Ok(Self {
            tensors,
            metadata,
            foreign: Vec::new(),
            format: "safetensors",
            shards: vec![Shard {
                source: Source::Safetensors(source),
                place: None,
            }],
            later: BTreeMap::new(),
        })
    }

    /// Opens the shards of one model as one file.
    ///
    /// # Errors
    ///
    /// A shard cannot be opened, or a tensor is in two shards.
    ///
    /// # Panics
    ///
    /// If `paths` is empty.
    pub fn open_shards(paths: &[PathBuf]) -> Result<Self, WeightsError> {
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        let mut whole: Option<Self> = None;
        for path in paths {
            let opened = Self::open(path).map_err(|error| {
                let what = error.without_path();
                WeightsError::File(format!("has a shard {} that {what}", name(path)))
            })?;
            let Some(whole) = &mut whole else {
                whole = Some(opened);
                continue;
            };
            let index = whole.shards.len();
            for (tensor, info) in opened.tensors {
                if whole.tensors.contains_key(&tensor) {
                    let first = whole.shard(&tensor).file_name().unwrap_or_default();
                    let what = format!("has tensor {tensor} twice, in {first} and {}", name(path));
                    return Err(WeightsError::File(what));
                }
                whole.later.insert(tensor.clone(), index);
                whole.tensors.insert(tensor, info);
            }
            whole.shards.extend(opened.shards);
            whole.foreign.extend(opened.foreign);
        }
        Ok(whole.expect("a model has at least one file"))
    }

    /// Returns the name of the file that holds a tensor, or `None` for an unknown tensor.
    pub(super) fn file_name_of(&self, name: &str) -> Option<String> {
        self.tensors.get(name)?;
        self.shard(name).file_name()
    }

    /// Returns an error of this file with its path, or that of its folder if it has several shards.
    pub(super) fn error(&self, error: WeightsError) -> WeightsError {
        match (&self.shards[0].place, self.shards.len()) {
            (Some((path, _)), 1) => error.at(path),
            (Some((path, _)), _) => error.at(path.parent().unwrap_or(path)),
            (None, _) => error,
        }
    }

    fn shard(&self, name: &str) -> &Shard {
        &self.shards[self.later.get(name).copied().unwrap_or(0)]
    }

    #[cfg(feature = "pytorch")]
    fn open_pytorch(path: &Path, about: &Metadata) -> Result<Self, WeightsError> {
        let opened = PyTorchFile::open(path, about.len());
        let (source, format, tensors, foreign) = opened?;
        Ok(Self {
            tensors,
            metadata: BTreeMap::new(),
            foreign,
            format,
            shards: vec![Shard {
                source: Source::PyTorch(source),
                place: Some((path.into(), stamp(about))),
            }],
            later: BTreeMap::new(),
        })
    }

    #[cfg(not(feature = "pytorch"))]
    fn open_pytorch(_: &Path, _: &Metadata) -> Result<Self, WeightsError> {
        let what =
            "is a PyTorch checkpoint; reading it requires the feature `pytorch` of this crate";
        Err(WeightsError::File(what.into()))
    }

    /// Checks that the file has not changed since it was opened, because its header was checked
    /// only then.
    pub(super) fn check_unchanged(&self) -> Result<(), WeightsError> {
        let is_same = |shard: &Shard| {
            let Some((path, opened)) = &shard.place else {
                return true;
            };
            std::fs::metadata(path).is_ok_and(|about| stamp(&about) == *opened)
        };
        if self.shards.iter().all(is_same) {
            Ok(())
        } else {
            Err(WeightsError::File("was changed while it was read".into()))
        }
    }

    /// Returns the file format in words, such as `PyTorch checkpoint`.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Returns the description of each tensor, by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// Returns the metadata of a safetensors file, or of the first shard.
    ///
    /// Files of other formats have no metadata.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns the Python objects in the file that are neither tensors nor plain data.
    pub fn foreign_objects(&self) -> &[ForeignObject] {
        &self.foreign
    }

    /// Reads a tensor as f32.
    ///
    /// Elements in f16 and bf16 are converted exactly, and elements in f64 are rounded. Quantised
    /// matrices are dequantised.
    ///
    /// # Errors
    ///
    /// The file has no such tensor, the tensor is neither f16, bf16, f32 or f64 nor a valid
    /// quantised matrix, or the file cannot be read.
    pub fn read(&self, name: &str) -> Result<TensorData, WeightsError> {
        let size = self
            .tensors
            .get(name)
            .map_or(0, |info| info.shape.iter().product());
        let mut elements = Vec::with_capacity(size);
        self.read_rows(name, 1, 0..size, |_, some| {
            elements.extend_from_slice(some);
            Ok(())
        })?;
        Ok(TensorData::new(elements, self.tensors[name].shape.clone()))
    }

    /// Reads the rows `part` of a tensor as f32, each of `width` elements, and passes some of them
    /// at a time to `each`, which gets the index of the first of these rows, and their elements.
    ///
    /// `part` must be the whole tensor unless [`has_parts`](Self::has_parts) is true. From a
    /// safetensors file, at most `CHUNK` bytes or one row are read at a time, unless the tensor is
    /// quantised.
    ///
    /// # Errors
    ///
    /// In the cases of [`read`](Self::read), and the errors of `each`.
    pub(super) fn read_rows(
        &self,
        name: &str,
        width: usize,
        part: Range<usize>,
        mut each: impl FnMut(usize, &[f32]) -> Result<(), WeightsError>,
    ) -> Result<(), WeightsError> {
        let info = self.tensors.get(name);
        let info = info.ok_or_else(|| WeightsError::missing([name]))?;
        check_float(name, &info.dtype)?;
        if let Some(matrix) = self.read_int8(name)? {
            let whole = dequantize(&matrix);
            return each(0, whole.as_slice().expect("it was dequantised"));
        }
        let size = size_of_element(&info.dtype);
        let row_bytes = width.max(1) * size;
        let chunk = (CHUNK / row_bytes).max(1) * row_bytes;
        let (mut row, mut elements) = (part.start, Vec::new());
        let mut next = |bytes: &[u8]| {
            elements.clear();
            extend_f32(&mut elements, &info.dtype, bytes);
            each(row, &elements)?;
            row += elements.len() / width.max(1);
            Ok(())
        };
        match &self.shard(name).source {
            Source::Safetensors(file) => {
                let part = part.start * row_bytes..part.end.saturating_mul(row_bytes);
                file.read_chunks(name, part, chunk, &mut next)
            }
            #[cfg(feature = "pytorch")]
            Source::PyTorch(file) => file.read(name)?.chunks(chunk).try_for_each(&mut next),
        }
    }

    /// Returns whether a tensor, which must be in the file, can be read in parts.
    pub(super) fn has_parts(&self, name: &str) -> bool {
        matches!(self.shard(name).source, Source::Safetensors(_))
            && self.tensors[name].dtype != INT8
    }

    /// Returns whether two names refer to the same bytes of the file. In a PyTorch checkpoint,
    /// different names count as different tensors.
    pub(super) fn is_one_tensor(&self, name: &str, other: &str) -> bool {
        let shards = [name, other].map(|name| self.later.get(name));
        let is_one_place = || match &self.shard(name).source {
            Source::Safetensors(file) => file.is_one_place(name, other),
            #[cfg(feature = "pytorch")]
            Source::PyTorch(_) => false,
        };
        name == other || (shards[0] == shards[1] && is_one_place())
    }

    /// Reads a tensor as a quantised matrix. Returns `None` if it is not one.
    pub(super) fn read_int8(&self, name: &str) -> Result<Option<TensorData>, WeightsError> {
        match &self.shard(name).source {
            Source::Safetensors(file) if self.tensors[name].dtype == INT8 => {
                file.read_int8(name, &self.tensors[name].shape).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Returns whether a file that begins with `start` is a PyTorch checkpoint.
fn is_pytorch(start: &[u8]) -> bool {
    // A checkpoint is a ZIP archive, or a pickle of protocol 2 to 5. A safetensors file begins with
    // the length of its header, whose bytes may look like the start of a pickle. However, its byte
    // 8 is always `{`, the first byte of the header.
    let is_pickle = matches!(start, [0x80, 2..=5, ..]) && start.get(8) != Some(&b'{');
    is_pickle || start.starts_with(b"PK\x03\x04")
}
