//! Reads the lines of a text. The length of each line is limited.

use std::io::{self, BufRead, ErrorKind, Read};

/// Maximum length of a line with its line break, in bytes. Without a maximum, reading a device such
/// as `/dev/zero`, whose first line never ends, would fill the memory.
const LONGEST: u64 = 64 << 20;

/// Byte order mark, with which some Windows programs begin a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reader of the lines of a text.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    /// Creates a line reader. `reader` must be at the start of the text.
    pub fn new(reader: R) -> Self {
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
        let mut bytes = Vec::new();
        let mut limited = Read::take(&mut self.reader, LONGEST + 1);
        if limited.read_until(b'\n', &mut bytes)? == 0 {
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

#[cfg(test)]
mod tests {
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
    #[cfg(unix)]
    fn a_line_without_end_is_an_error() {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut reader = LineReader::new(io::BufReader::new(zero));
        let error = reader.next_line().unwrap_err().to_string();
        assert_eq!(error, "a line has more than 64 MiB");
    }
}
