//! Reads lines of text from stdin or a file.

use std::io::{Cursor, IsTerminal};
use std::path::{Path, PathBuf};

use crate::data::parallel::is_json_lines;
use crate::error::{UsageError, quote};
use crate::files::{LineReader, count_lines};

/// A line of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the line, counted from 1.
    pub number: u64,
    /// Text without the line break.
    pub text: String,
}

impl Line {
    /// Returns an error about this line. `what` describes the problem.
    pub fn wrong(&self, what: impl Into<String>) -> UsageError {
        UsageError::new(format!("line {}", self.number), quote(&self.text), what)
    }
}

/// Part of the input that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Number of a line that is not valid UTF-8, and the error. Later lines may be readable.
    Line(u64, UsageError),
    /// All of the remaining input, because reading failed.
    Rest(UsageError),
}

/// Iterator over the lines of stdin or a file, plain or gzip, which returns each line without
/// waiting for the next.
pub struct Input {
    /// The file, or `-` for stdin; empty for texts.
    name: PathBuf,
    reader: LineReader,
}

impl Input {
    /// Opens a file, or stdin if `path` is `-`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or has the name of a file of JSON Lines, whose objects are no
    /// texts.
    pub fn open(path: &Path) -> Result<Self, UsageError> {
        if is_json_lines(path) {
            let expected = "has the name of JSON Lines, but a text in each line is needed; standard \
                input takes its lines as they are";
            return Err(UsageError::argument("input", path.display(), expected));
        }
        let (name, reader) = (path.into(), LineReader::open(path));
        let reader = reader.map_err(|error| cannot_read(path, &error))?;
        Ok(Self { name, reader })
    }

    /// Returns the lines of `texts`, one after the other.
    pub fn of_texts(texts: &[String]) -> Self {
        let lines: String = texts.iter().map(|text| format!("{text}\n")).collect();
        let (name, reader) = (PathBuf::new(), LineReader::new(Cursor::new(lines)));
        Self { name, reader }
    }

    /// Returns the number of lines in the file; `None` if the lines come from elsewhere.
    pub fn total(&self) -> Option<usize> {
        count_lines(&self.name)
    }

    /// Returns whether the lines are typed into a terminal, so that the user waits for each result.
    pub fn is_terminal(&self) -> bool {
        self.name == Path::new("-") && std::io::stdin().is_terminal()
    }
}

impl Iterator for Input {
    type Item = Result<Line, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = match self.reader.next_line() {
            Err(error) => return Some(Err(Unreadable::Rest(cannot_read(&self.name, &error)))),
            Ok(bytes) => bytes?,
        };
        let number = self.reader.number();
        Some(match String::from_utf8(bytes) {
            Ok(text) => Ok(Line { number, text }),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let error = Line { number, text }.wrong("is not UTF-8; convert the input first");
                Err(Unreadable::Line(number, error))
            }
        })
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> UsageError {
    let expected = format!("cannot be read ({error}); name a file that can, or - for stdin");
    UsageError::argument("input", path.display(), expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    fn lines(bytes: &'static [u8]) -> Vec<Result<Line, Unreadable>> {
        let input = Input {
            name: PathBuf::new(),
            reader: LineReader::new(bytes),
        };
        input.collect()
    }

    #[test]
    fn only_line_breaks_are_removed_from_lines() {
        let texts = |bytes| -> Vec<String> {
            lines(bytes)
                .into_iter()
                .map(|line| line.unwrap().text)
                .collect()
        };
        assert_eq!(texts(b"1 2\n\n 3\t\r\n4"), ["1 2", "", " 3\t", "4"]);
        assert_eq!(texts(b""), [""; 0]);
        assert_eq!(texts(b"\n"), [""]);
        // A byte order mark is removed at the start only.
        assert_eq!(texts(b"\xef\xbb\xbf1\n\xef\xbb\xbf2"), ["1", "\u{feff}2"]);
    }

    #[test]
    fn a_line_that_is_not_utf_8_has_a_number_and_the_next_line_is_read() {
        let lines = lines(b"1\n\xff 2\n3\n");
        let Err(Unreadable::Line(2, error)) = &lines[1] else {
            panic!("{:?}", lines[1]);
        };
        assert_has(error, &["line 2 \"\u{fffd} 2\": is not UTF-8"]);
        let third = Line {
            number: 3,
            text: "3".into(),
        };
        assert_eq!(lines[2], Ok(third));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let error = Input::open(Path::new("/no/such/file")).err().unwrap();
        assert_has(&error, &["input /no/such/file: cannot be read"]);
    }

    #[test]
    fn only_a_file_has_a_total() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a\n\nb").unwrap();
        assert_eq!(Input::open(file.path()).unwrap().total(), Some(3));
        assert_eq!(Input::of_texts(&["a".into()]).total(), None);
    }
}
