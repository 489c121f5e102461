//! Checks a checkpoint's pickle before it is read: its size, and which tensors are negated views.
//!
//! The check scans the operations of the pickle and builds no objects.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use zip::ZipArchive;

use super::error::WeightsError;

/// Maximum number of pickle operations. A checkpoint of a model with 10,000 tensors and of its Adam
/// optimiser has about 1.1 million operations.
const MAX_OPERATIONS: u64 = 2_000_000;

/// Maximum total number of bytes of all operations and their arguments.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of bytes of one argument. Only `MAX_BYTES` limits an argument that is a line.
const MAX_ARGUMENT: u64 = 16 << 20;

/// The operation that pushes `True`.
const TRUE: u8 = 0x88;

/// Magic number that is pickled at the beginning of a legacy checkpoint, in little-endian order.
const LEGACY: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Checks the pickles of a checkpoint. Returns the keys of tensors that are negated views, such as the
/// imaginary part of a conjugate: their elements in the file have the sign before the negation.
///
/// # Errors
///
/// The file cannot be read, its archive is damaged or has no pickle, or its pickles are truncated or
/// exceed `MAX_OPERATIONS`, `MAX_BYTES` or `MAX_ARGUMENT`.
pub(super) fn check_file(path: &Path) -> Result<Vec<String>, WeightsError> {
    let wrong = |what: String| WeightsError::PyTorch(what);
    let io = |error: std::io::Error| wrong(error.to_string());
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let start = file.fill_buf().map_err(io)?;
    if !start.starts_with(b"PK") {
        // A legacy checkpoint has five pickles before the elements of the tensors. Any other file
        // that is not an archive has one pickle.
        let is_legacy = start
            .get(..start.len().min(64))
            .is_some_and(|start| start.windows(10).any(|x| x == LEGACY));
        let mut scan = Scan::new(&mut file);
        for _ in 0..if is_legacy { 5 } else { 1 } {
            scan.pickle().map_err(wrong)?;
        }
        return Ok(scan.negated);
    }
    let mut archive = ZipArchive::new(file).map_err(|error| wrong(error.to_string()))?;
    let names = archive.file_names().filter_map(Result::ok);
    let names = names.filter(|name| name == "data.pkl" || name.ends_with("/data.pkl"));
    let names: Vec<String> = names.map(String::from).collect();
    if names.is_empty() {
        return Err(wrong("its archive has no data.pkl".into()));
    }
    let mut negated = Vec::new();
    for name in names {
        let entry = archive.by_name(&name);
        let entry = entry.map_err(|error| wrong(error.to_string()))?;
        let mut entry = BufReader::new(entry);
        let mut scan = Scan::new(&mut entry);
        scan.pickle().map_err(wrong)?;
        negated.append(&mut scan.negated);
    }
    Ok(negated)
}

/// A scanner of pickles, which counts operations and bytes.
struct Scan<'a, R> {
    from: &'a mut R,
    bytes: u64,
    operations: u64,
    /// The strings that are memoised, by their places, and the number of memoised objects.
    memo: HashMap<u64, String>,
    memoised: u64,
    /// Keys of tensors that are negated views.
    negated: Vec<String>,
}

impl<'a, R: BufRead> Scan<'a, R> {
    fn new(from: &'a mut R) -> Self {
        Self {
            from,
            bytes: 0,
            operations: 0,
            memo: HashMap::new(),
            memoised: 0,
            negated: Vec::new(),
        }
    }

    fn pickle(&mut self) -> Result<(), String> {
        // PyTorch saves a negated view as the elements before the negation and `{"neg": True}`, which
        // `PytorchReader` ignores. The arguments of a tensor begin with those of its storage, so that
        // two marks follow its key.
        let (mut last, mut key) = (String::new(), String::new());
        let (mut is_string, mut is_mark) = (false, false);
        (self.memoised, self.memo) = (0, HashMap::new());
        loop {
            self.operations += 1;
            if self.operations > MAX_OPERATIONS {
                return Err(format!(
                    "its pickle has more than {MAX_OPERATIONS} operations"
                ));
            }
            let operation = self.byte()?;
            if is_string && last == "neg" && operation == TRUE {
                self.negated.push(key.clone());
            }
            if operation == b'(' && is_mark {
                key.clone_from(&last);
            }
            is_mark = operation == b'(';
            let place = match operation {
                b'q' | b'h' => Some(self.length::<1>()?),
                b'r' | b'j' => Some(self.length::<4>()?),
                0x94 => Some(self.memoised),
                _ => None,
            };
            if let Some(place) = place {
                if matches!(operation, b'h' | b'j') {
                    let known = self.memo.get(&place);
                    is_string = known.is_some();
                    last = known.cloned().unwrap_or(last);
                } else {
                    self.memoised += 1;
                    let known = is_string.then(|| last.clone());
                    self.memo.extend(known.map(|known| (place, known)));
                }
                continue;
            }
            is_string = matches!(operation, b'X' | 0x8c);
            match operation {
                b'.' => return Ok(()),
                // Operations with an argument of one, two, four or eight bytes.
                b'K' | 0x80 | 0x82 => self.skip(1)?,
                b'M' | 0x83 => self.skip(2)?,
                b'J' | 0x84 => self.skip(4)?,
                b'G' | 0x95 => self.skip(8)?,
                // Operations with an argument that is preceded by its length, which has one, four
                // or eight bytes.
                b'X' => last = self.text::<4>()?,
                0x8c => last = self.text::<1>()?,
                b'U' | b'C' | 0x8a => self.skip_counted::<1>()?,
                b'T' | b'B' | 0x8b => self.skip_counted::<4>()?,
                0x8d | 0x8e | 0x96 => self.skip_counted::<8>()?,
                // Operations with an argument of one or two lines.
                b'I' | b'L' | b'F' | b'S' | b'V' | b'g' | b'p' | b'P' => self.skip_line()?,
                b'c' | b'i' => {
                    self.skip_line()?;
                    self.skip_line()?;
                }
                // All other operations have no argument. Bytes that are not operations are skipped
                // here; `PytorchReader` rejects them when it reads the checkpoint.
                _ => {}
            }
        }
    }

    /// Adds `bytes`, the size of one argument or operation, to the total. Rejects sizes above
    /// `MAX_ARGUMENT` and totals above `MAX_BYTES`.
    fn count(&mut self, bytes: u64) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > MAX_ARGUMENT || self.bytes > MAX_BYTES {
            return Err(format!(
                "its pickle has more than {} MiB, or {} MiB in one piece",
                MAX_BYTES >> 20,
                MAX_ARGUMENT >> 20
            ));
        }
        Ok(())
    }

    /// Fills `bytes` with the next bytes of the pickle.
    fn raw(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.count(bytes.len() as u64)?;
        let read = self.from.read_exact(bytes);
        read.map_err(|_| "its pickle is truncated".to_string())
    }

    fn byte(&mut self) -> Result<u8, String> {
        let mut byte = [0];
        self.raw(&mut byte)?;
        Ok(byte[0])
    }

    fn skip(&mut self, bytes: u64) -> Result<(), String> {
        self.count(bytes)?;
        let skipped = std::io::copy(&mut self.from.take(bytes), &mut std::io::sink());
        match skipped {
            Ok(skipped) if skipped == bytes => Ok(()),
            _ => Err("its pickle is truncated".into()),
        }
    }

    fn length<const N: usize>(&mut self) -> Result<u64, String> {
        let mut length = [0; 8];
        self.raw(&mut length[..N])?;
        Ok(u64::from_le_bytes(length))
    }

    /// Skips an argument that is preceded by its length, an integer of `N` bytes.
    fn skip_counted<const N: usize>(&mut self) -> Result<(), String> {
        let length = self.length::<N>()?;
        self.skip(length)
    }

    /// Returns a text that is preceded by its length, an integer of `N` bytes.
    fn text<const N: usize>(&mut self) -> Result<String, String> {
        let length = self.length::<N>()?;
        self.count(length)?;
        let mut text = Vec::new();
        let read = self.from.take(length).read_to_end(&mut text);
        match read {
            Ok(read) if read as u64 == length => Ok(String::from_utf8_lossy(&text).into_owned()),
            _ => Err("its pickle is truncated".into()),
        }
    }

    /// Skips an argument that ends with a newline.
    fn skip_line(&mut self) -> Result<(), String> {
        loop {
            if self.byte()? == b'\n' {
                return Ok(());
            }
        }
    }
}
