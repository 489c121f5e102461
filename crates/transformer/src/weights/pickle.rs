//! A look at a pickle before it is read: what it would build must be of a size that a checkpoint's
//! description can have. Nothing is built here.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use zip::ZipArchive;

use super::error::WeightsError;

/// Operations; a model of ten thousand tensors and its optimiser have some hundred thousand.
const MOST_OPERATIONS: u64 = 2_000_000;

/// Bytes of operations and their arguments.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of one argument.
const MOST_OF_ONE: u64 = 16 << 20;

/// The bytes of the number that a legacy checkpoint begins with.
const LEGACY: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Judges the description in a checkpoint.
///
/// # Errors
///
/// If it is not one, or would build more than any checkpoint's.
pub(super) fn check_file(path: &Path) -> Result<(), WeightsError> {
    let wrong = |what: String| WeightsError::PyTorch(what);
    let io = |error: std::io::Error| wrong(error.to_string());
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let start = file.fill_buf().map_err(io)?;
    if !start.starts_with(b"PK") {
        // A version and four more pickles before the numbers, or a single one.
        let is_legacy = start
            .get(..16)
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

    /// Passes over one pickle.
    fn pickle(&mut self) -> Result<(), String> {
        loop {
            self.operations += 1;
            if self.operations > MOST_OPERATIONS {
                return Err(format!(
                    "its pickle has more than {MOST_OPERATIONS} operations"
                ));
            }
            match self.byte()? {
                b'.' => return Ok(()),
                // An argument of one byte, of two, four or eight.
                b'K' | b'h' | b'q' | 0x80 | 0x82 => self.skip(1)?,
                b'M' | 0x83 => self.skip(2)?,
                b'J' | b'j' | b'r' | 0x84 => self.skip(4)?,
                b'G' | 0x95 => self.skip(8)?,
                // As many bytes as the argument says.
                b'U' | b'C' | 0x8a | 0x8c => self.skip_counted::<1>()?,
                b'T' | b'X' | b'B' | 0x8b => self.skip_counted::<4>()?,
                0x8d | 0x8e | 0x96 => self.skip_counted::<8>()?,
                // A line, or two.
                b'I' | b'L' | b'F' | b'S' | b'V' | b'g' | b'p' | b'P' => self.skip_line()?,
                b'c' | b'i' => {
                    self.skip_line()?;
                    self.skip_line()?;
                }
                // None. The reader judges what is no operation.
                _ => {}
            }
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), String> {
        self.bytes += bytes;
        if bytes > MOST_OF_ONE || self.bytes > MOST_BYTES {
            return Err(format!(
                "its pickle has more than {} MiB, or {} MiB in one piece",
                MOST_BYTES >> 20,
                MOST_OF_ONE >> 20
            ));
        }
        Ok(())
    }

    /// The next bytes.
    fn raw(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.count(bytes.len() as u64)?;
        let read = self.from.read_exact(bytes);
        read.map_err(|_| "its pickle has no end".to_string())
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
            _ => Err("its pickle has no end".into()),
        }
    }

    fn skip_counted<const N: usize>(&mut self) -> Result<(), String> {
        let mut length = [0; 8];
        self.raw(&mut length[..N])?;
        self.skip(u64::from_le_bytes(length))
    }

    fn skip_line(&mut self) -> Result<(), String> {
        loop {
            if self.byte()? == b'\n' {
                return Ok(());
            }
        }
    }
}
