//! Reads the lines of a text, plain or gzip. The length of each line is limited.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

/// Maximum length of a line with its line break, in bytes. Without a maximum, reading a device such
/// as `/dev/zero`, whose first line never ends, would fill the memory.
const LONGEST: u64 = 64 << 20;

/// Byte order mark, with which some Windows programs begin a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// First bytes of gzip data. No text in UTF-8 begins with them.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Size of the buffers through which files are read, in bytes.
const BUFFER: usize = 1 << 16;

/// Returns the number of lines of a regular file, plain or gzip; `None` for something else, or if
/// the file cannot be read.
pub fn count_lines(path: &Path) -> Option<usize> {
    fs::metadata(path).ok().filter(|file| file.is_file())?;
    let mut reader = LineReader::open_file(path).ok()?;
    while reader.next_line().ok()?.is_some() {}
    Some(reader.number as usize)
}

/// Reader of the lines of a text. Text that is compressed by gzip is recognised by its content.
pub struct LineReader {
    reader: Box<dyn BufRead + Send>,
    number: u64,
}

impl LineReader {
    /// Opens a file, or stdin if `path` is `-`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path != Path::new("-") {
            return Self::open_file(path);
        }
        Ok(Self::new(BufReader::new(io::stdin())))
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is a folder.
    pub(crate) fn open_file(path: &Path) -> io::Result<Self> {
        // On Unix, a folder can be opened like a file.
        if fs::metadata(path)?.is_dir() {
            return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"));
        }
        let file = File::open(path)?;
        Ok(Self::new(BufReader::with_capacity(BUFFER, file)))
    }

    /// Creates a line reader. `reader` must be at the start of the text.
    pub fn new(reader: impl BufRead + Send + 'static) -> Self {
        let reader = Box::new(reader);
        Self { reader, number: 0 }
    }

    /// Returns the number of lines that were read so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads a line without its line break, and without a byte order mark at the start of the text.
    /// A line break is `\n` or `\r\n` or, at the end of the text, `\r`. Returns `None` if there are
    /// no more lines.
    ///
    /// # Errors
    ///
    /// If the line cannot be read, or has more than 64 MiB.
    pub fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.number == 0 && self.reader.fill_buf()?.starts_with(GZIP) {
            let compressed = std::mem::replace(&mut self.reader, Box::new(io::empty()));
            let plain = Members(GzDecoder::new(compressed));
            self.reader = Box::new(BufReader::with_capacity(BUFFER, plain));
        }
        let mut bytes = Vec::new();
        let mut limited = Read::take(&mut self.reader, LONGEST + 1);
        let read = limited.read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                io::Error::other("its gzip data is cut, or has other data after it")
            }
            _ => error,
        })?;
        if read == 0 {
            return Ok(None);
        }
        if bytes.len() as u64 > LONGEST {
            let what = "a line has more than 64 MiB";
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        for end in [b"\n", b"\r"] {
            if bytes.ends_with(end) {
                bytes.pop();
            }
        }
        self.number += 1;
        if self.number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(bytes))
    }
}

/// Reader of the text of gzip members, one after the other. Zero bytes after a member, with which
/// some programs pad files, are skipped.
struct Members(GzDecoder<Box<dyn BufRead + Send>>);

impl Read for Members {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(to)?;
        if read > 0 || to.is_empty() {
            return Ok(read);
        }
        let rest = self.0.get_mut();
        while rest.fill_buf()?.first() == Some(&0) {
            rest.consume(1);
        }
        if rest.fill_buf()?.is_empty() {
            return Ok(0);
        }
        self.0 = GzDecoder::new(std::mem::replace(rest, Box::new(io::empty())));
        self.read(to)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_byte_order_mark_is_removed_at_the_start_only() {
        let mut reader = LineReader::new("\u{feff}1\r\n\u{feff}2\n\n3".as_bytes());
        let mut next = || {
            let line = reader.next_line().unwrap();
            line.map(|line| String::from_utf8(line).unwrap())
        };
        for expected in ["1", "\u{feff}2", "", "3"] {
            assert_eq!(next().as_deref(), Some(expected));
        }
        assert_eq!(next(), None);
        assert_eq!(reader.number(), 4);
    }

    #[test]
    fn gzip_is_recognised_by_its_content() {
        let gzip = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let members = [gzip("1\n2"), gzip("3\n")].concat();
        let read = |bytes: &[u8]| -> io::Result<Vec<Vec<u8>>> {
            let mut reader = LineReader::new(io::Cursor::new(bytes.to_vec()));
            std::iter::from_fn(|| reader.next_line().transpose()).collect()
        };
        assert_eq!(read(&members).unwrap(), [&b"1"[..], b"23"]);
        assert_eq!(read(&gzip("")).unwrap(), [b""; 0]);
        let padded = [&members[..], &[0; 70_000]].concat();
        assert_eq!(read(&padded).unwrap(), [&b"1"[..], b"23"]);
        assert!(read(&[&padded[..], b"more"].concat()).is_err());
        let cut = read(&members[..members.len() - 9]).unwrap_err();
        assert!(cut.to_string().contains("gzip data is cut"), "{cut}");
    }

    #[test]
    #[cfg(unix)]
    fn a_line_without_end_is_an_error() {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut reader = LineReader::new(io::BufReader::new(zero));
        let error = reader.next_line().unwrap_err().to_string();
        assert_eq!(error, "a line has more than 64 MiB");
    }
}
