//! Lines of text from stdin or a file, one after the other.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use crate::error::{UsageError, quote};

/// A line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub number: u64,
    /// What it says, without its end.
    pub text: String,
}

impl Line {
    /// Whether there is nothing on it but white space.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The error that this line is.
    pub fn wrong(&self, what: impl Into<String>) -> UsageError {
        UsageError::new(format!("line {}", self.number), quote(&self.text), what)
    }
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A line that is no text; the next one may be.
    Line(u64, UsageError),
    /// The whole rest.
    Rest(UsageError),
}

/// A source of lines: an iterator that reads no further than it is asked to.
pub struct Input {
    name: PathBuf,
    is_terminal: bool,
    reader: Box<dyn BufRead>,
    number: u64,
}

impl Input {
    /// A file, or stdin by the name `-`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn open(path: &Path) -> Result<Self, UsageError> {
        if path == Path::new("-") {
            let stdin = std::io::stdin();
            let is_terminal = stdin.is_terminal();
            return Ok(Self::new(path, is_terminal, Box::new(stdin.lock())));
        }
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        Ok(Self::new(path, false, Box::new(BufReader::new(file))))
    }

    fn new(name: &Path, is_terminal: bool, reader: Box<dyn BufRead>) -> Self {
        Self {
            name: name.into(),
            is_terminal,
            reader,
            number: 0,
        }
    }

    /// Whether somebody types the lines and waits.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Its name, as `--input` takes it.
    pub fn name(&self) -> String {
        self.name.display().to_string()
    }
}

impl Iterator for Input {
    type Item = Result<Line, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::new();
        match self.reader.read_until(b'\n', &mut bytes) {
            Err(error) => return Some(Err(Unreadable::Rest(cannot_read(&self.name, &error)))),
            Ok(0) => return None,
            Ok(_) => {}
        }
        self.number += 1;
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
        let number = self.number;
        Some(String::from_utf8(bytes).map_or_else(
            |error| {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let error = Line { number, text }.wrong("is not UTF-8; convert the input first");
                Err(Unreadable::Line(number, error))
            },
            |text| Ok(Line { number, text }),
        ))
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> UsageError {
    let expected = format!("cannot be read ({error}); name a file that can, or - for stdin");
    UsageError::new("--input", path.display(), expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &'static [u8]) -> Vec<Result<Line, Unreadable>> {
        Input::new(Path::new("-"), false, Box::new(bytes)).collect()
    }

    #[test]
    fn lines_lose_their_ends_and_nothing_else() {
        let texts = |bytes| -> Vec<String> {
            lines(bytes)
                .into_iter()
                .map(|line| line.unwrap().text)
                .collect()
        };
        assert_eq!(texts(b"1 2\n\n 3\t\r\n4"), ["1 2", "", " 3\t", "4"]);
        assert_eq!(texts(b""), [""; 0]);
        assert_eq!(texts(b"\n"), [""]);
    }

    #[test]
    fn a_line_that_is_no_text_has_a_number_and_ends_nothing() {
        let lines = lines(b"1\n\xff 2\n3\n");
        let Err(Unreadable::Line(2, error)) = &lines[1] else {
            panic!("{:?}", lines[1]);
        };
        assert!(
            error
                .to_string()
                .starts_with("line 2 \"\u{fffd} 2\": is not UTF-8")
        );
        let third = Line {
            number: 3,
            text: "3".into(),
        };
        assert_eq!(lines[2], Ok(third));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let error = Input::open(Path::new("/no/such/file")).err().unwrap();
        assert!(
            error
                .to_string()
                .starts_with("--input /no/such/file: cannot be read")
        );
    }
}
