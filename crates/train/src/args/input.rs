//! Flags that name the lines that a command reads.

use std::path::{Path, PathBuf};

use clap::Args;
use training::error::UsageError;
use training::inference::Input;

/// Flags that name the lines that a command reads.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// Texts whose lines to take instead of those of --input
    #[arg(value_name = "TEXT", help_heading = None::<&'static str>, conflicts_with = "input")]
    pub texts: Vec<String>,
    /// File with a text per line, plain or gzip; - for standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub input: PathBuf,
}

impl InputArgs {
    /// Opens the texts, or else the file.
    ///
    /// # Errors
    ///
    /// A text that is the name of a file or `-`, or a file that cannot be opened.
    pub fn open(&self) -> Result<Input, UsageError> {
        if self.texts.is_empty() {
            let input = match &*self.input {
                stdin if stdin == Path::new("-") => Path::new("/dev/stdin"),
                file => file,
            };
            if is_one_file(input, Path::new("/dev/stdout")) {
                let what = "is the file of standard output, and would never end".into();
                return Err(self.wrong(what));
            }
            return Input::open(&self.input);
        }
        let mut texts = self.texts.iter();
        if let Some(file) = texts.find(|text| Path::new(text).is_file()) {
            let what = format!(
                "is a file; to read it, use --input {file}, and standard input for the text itself"
            );
            return Err(UsageError::new("TEXT", file, what));
        }
        if self.texts == ["-"] {
            let what =
                "standard input is read without a TEXT; --input takes a file with such a line";
            return Err(UsageError::new("TEXT", "-", what));
        }
        Ok(Input::of_texts(&self.texts))
    }

    /// Returns an error about the texts, or else about the file.
    pub fn wrong(&self, what: String) -> UsageError {
        match &self.texts[..] {
            [] => UsageError::new("--input", self.input.display(), what),
            _ => UsageError::new("TEXT", "", what),
        }
    }
}

/// Returns whether two paths lead to one regular file, which may have several names.
#[cfg(unix)]
fn is_one_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| {
        let file = path.metadata().ok().filter(|file| file.is_file());
        file.map(|file| (file.dev(), file.ino()))
    };
    id(one).is_some_and(|file| Some(file) == id(other))
}

#[cfg(not(unix))]
fn is_one_file(_: &Path, _: &Path) -> bool {
    false
}
