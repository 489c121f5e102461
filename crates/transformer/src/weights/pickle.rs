//! Checks a checkpoint's pickle before it is read: its size, and that no tensor is a negated view.
//!
//! The check scans the operations of the pickle and builds no objects.

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

/// Checks the pickles of a checkpoint.
///
/// # Errors
///
/// The file cannot be read, its archive is damaged or has no pickle, its pickles are truncated or
/// exceed `MAX_OPERATIONS`, `MAX_BYTES` or `MAX_ARGUMENT`, or a tensor is a negated view.
pub(super) fn check_file(path: &Path) -> Result<(), WeightsError> {
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
        return Ok(());
    }
    let mut archive = ZipArchive::new(file).map_err(|error| wrong(error.to_string()))?;
    let names = archive.file_names().filter_map(Result::ok);
    let names = names.filter(|name| name == "data.pkl" || name.ends_with("/data.pkl"));
    let names: Vec<String> = names.map(String::from).collect();
    if names.is_empty() {
        return Err(wrong("its archive has no data.pkl".into()));
    }
    for name in names {
        let entry = archive.by_name(&name);
        let entry = entry.map_err(|error| wrong(error.to_string()))?;
        Scan::new(&mut BufReader::new(entry))
            .pickle()
            .map_err(wrong)?;
    }
    Ok(())
}

/// A scanner of pickles, which counts operations and bytes.
struct Scan<'a, R> {
    from: &'a mut R,
    bytes: u64,
    operations: u64,
}

impl<'a, R: BufRead> Scan<'a, R> {
    fn new(from: &'a mut R) -> Self {
        Self {
            from,
            bytes: 0,
            operations: 0,
        }
    }

    fn pickle(&mut self) -> Result<(), String> {
        // PyTorch saves a negated view, such as the imaginary part of a conjugate, as the elements
        // before the negation and `{"neg": True}`, which `PytorchReader` ignores.
        let mut is_neg = false;
        loop {
            self.operations += 1;
            if self.operations > MAX_OPERATIONS {
                return Err(format!(
                    "its pickle has more than {MAX_OPERATIONS} operations"
                ));
            }
            let operation = self.byte()?;
            if is_neg && operation == TRUE {
                return Err("one of its tensors is a negated view, whose sign is not in its elements: save its resolve_neg()".into());
            }
            is_neg &= matches!(operation, b'q' | b'r' | 0x94);
            match operation {
                b'.' => return Ok(()),
                // Operations with an argument of one, two, four or eight bytes.
                b'K' | b'h' | b'q' | 0x80 | 0x82 => self.skip(1)?,
                b'M' | 0x83 => self.skip(2)?,
                b'J' | b'j' | b'r' | 0x84 => self.skip(4)?,
                b'G' | 0x95 => self.skip(8)?,
                // Operations with an argument that is preceded by its length, which has one, four
                // or eight bytes.
                b'X' => is_neg = self.counted::<4>()? == *b"neg",
                0x8c => is_neg = self.counted::<1>()? == *b"neg",
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

    /// Returns an argument of three bytes that is preceded by its length, an integer of `N` bytes.
    /// Skips an argument of another length, and returns zeros.
    fn counted<const N: usize>(&mut self) -> Result<[u8; 3], String> {
        let mut text = [0; 3];
        match self.length::<N>()? {
            3 => self.raw(&mut text)?,
            length => self.skip(length)?,
        }
        Ok(text)
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
