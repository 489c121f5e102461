//! An open safetensors file, of which tensors are read on request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;

use ::safetensors::tensor::Metadata;
use burn::tensor::TensorData;

use crate::weights::error::WeightsError;
use crate::weights::header::{INT8, TensorInfo};
use crate::weights::int8::{self, scales_of};
use crate::weights::unique::Unique;

/// Maximum header length in bytes, the same as in the reader of the `safetensors` crate.
const MAX_HEADER: u64 = 100_000_000;

/// A file on the disk or in memory.
#[derive(Debug)]
pub(in crate::weights) enum Bytes<'a> {
    Disk(File),
    Memory(Cow<'a, [u8]>),
}

impl Bytes<'_> {
    /// Returns the number of bytes.
    fn len(&self) -> std::io::Result<u64> {
        match self {
            Self::Disk(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills `to` with the bytes that begin at `offset`.
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), WeightsError> {
        let read = match self {
            Self::Disk(file) => read_at(file, offset, to),
            Self::Memory(bytes) => {
                let begin = usize::try_from(offset).ok();
                let mut rest = begin.and_then(|begin| bytes.get(begin..)).unwrap_or(&[]);
                rest.read_exact(to)
            }
        };
        read.map_err(|error| WeightsError::io(&error))
    }
}

/// Fills `to` with the bytes of a file that begin at `offset`, which several threads may do at once.
#[cfg(unix)]
fn read_at(file: &File, offset: u64, to: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, offset)
}

/// Fills `to` with the bytes of a file that begin at `offset`, which several threads may do at once.
#[cfg(not(unix))]
fn read_at(mut file: &File, offset: u64, to: &mut [u8]) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom};
    use std::sync::{Mutex, PoisonError};

    // The position is the file's, not the thread's.
    static POSITION: Mutex<()> = Mutex::new(());
    let _position = POSITION.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(to)
}

/// An open safetensors file whose header has been checked.
#[derive(Debug)]
pub(in crate::weights) struct SafetensorsFile<'a> {
    bytes: Bytes<'a>,
    /// Offset in the file and length of each tensor, both in bytes.
    locations: BTreeMap<String, (u64, usize)>,
    /// Shapes of the scales of quantised matrices, by the names of the matrices.
    scales: BTreeMap<String, Vec<usize>>,
}

type Opened<'a> = (
    SafetensorsFile<'a>,
    BTreeMap<String, TensorInfo>,
    BTreeMap<String, String>,
);

impl<'a> SafetensorsFile<'a> {
    /// Reads and checks the header of a file.
    pub fn open(bytes: Bytes<'a>) -> Result<Opened<'a>, WeightsError> {
        let not_whole = |what: String| WeightsError::NotSafetensors(what);
        let all = bytes.len().map_err(|error| WeightsError::io(&error))?;
        if all < 8 {
            return Err(not_whole(format!("it has only {all} bytes")));
        }
        let mut length = [0; 8];
        bytes.read(0, &mut length)?;
        let length = u64::from_le_bytes(length);
        if !(2..=MAX_HEADER).contains(&length) || length > all - 8 {
            return Err(not_whole(format!(
                "its header would have {length} bytes, of {all} in the file"
            )));
        }
        let mut header = vec![0; usize::try_from(length).expect("the header length was checked")];
        bytes.read(8, &mut header)?;
        let wrong = |error: serde_json::Error| not_whole(format!("its header: {error}"));
        let Unique(header) = serde_json::from_slice(&header).map_err(wrong)?;
        let header: Metadata = serde_json::from_value(header).map_err(wrong)?;
        let (start, data) = (8 + length, header.data_len() as u64);
        if start.checked_add(data) != Some(all) {
            let what = format!(
                "its header describes a file of {} bytes, but it has {all}",
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
            bytes,
            locations,
            scales,
        };
        Ok((file, tensors, metadata.collect()))
    }

    /// Reads the bytes `part` of a tensor, which must be in the file, in chunks of at most `length`
    /// bytes. `part` may end behind the tensor.
    pub fn read_chunks(
        &self,
        name: &str,
        part: Range<usize>,
        length: usize,
        mut each: impl FnMut(&[u8]) -> Result<(), WeightsError>,
    ) -> Result<(), WeightsError> {
        let (offset, whole) = self.locations[name];
        let part = part.start.min(whole)..part.end.min(whole);
        let (mut offset, mut left) = (offset + part.start as u64, part.len());
        let mut bytes = vec![0; length.min(left)];
        while left > 0 {
            let next = &mut bytes[..length.min(left)];
            self.bytes.read(offset, next)?;
            offset += next.len() as u64;
            left -= next.len();
            each(next)?;
        }
        Ok(())
    }

    /// Returns whether two names refer to the same bytes of the file.
    pub fn is_one_place(&self, name: &str, other: &str) -> bool {
        self.locations.get(name) == self.locations.get(other)
    }

    /// Reads the bytes of a tensor, which must be in the file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let (offset, length) = self.locations[name];
        let mut bytes = vec![0; length];
        self.bytes.read(offset, &mut bytes)?;
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
