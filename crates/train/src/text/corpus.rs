//! Parallel corpora in files: two files of lines, a table of two columns, or JSON Lines; plain or
//! gzip. They are read pair by pair, never whole.

mod lines;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{UsageError, quote};
use lines::{Lines, cannot_read, check_plain, open, wrong};

/// Where pairs stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// The sources, one a line; or, if there are no targets, pairs: JSON Lines if the name ends
    /// with `.jsonl`, `.ndjson` or `.json`, else lines `SOURCE<TAB>TARGET`. Any of them may be
    /// compressed by gzip.
    pub source: PathBuf,
    /// The targets, one a line.
    #[serde(default)]
    pub target: Option<PathBuf>,
    /// The fields of source and target in JSON Lines, with a dot between a field and one inside it;
    /// none for `source` and `target`.
    #[serde(default)]
    pub fields: Option<[String; 2]>,
}

/// A source and its target, both with something in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The source.
    pub source: String,
    /// The target.
    pub target: String,
}

/// How texts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Whether bytes that are no UTF-8 are replaced; else they are an error.
    pub lossy: bool,
    /// Most bytes of a text. Longer ones are left out: tokenisers take time by the square of a word.
    pub most_bytes: usize,
}

/// What was met on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Pairs that were given out.
    pub pairs: u64,
    /// Pairs of which one side or both had nothing but white space, and which were left out.
    pub empty: u64,
    /// Lines with bytes that were no UTF-8, and were replaced.
    pub replaced: u64,
    /// Pairs with a side of more bytes than were asked for, which were left out.
    pub huge: u64,
    /// Lines of a table with more than two columns, of which two were taken.
    pub wide: u64,
}

/// A file, and what it holds: by these a cache knows it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Bytes.
    pub size: u64,
    /// SHA-256 of them, in hexadecimal digits.
    pub sha256: String,
}

impl Corpus {
    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.source)
            .chain(&self.target)
            .map(PathBuf::as_path)
    }

    /// Refuses files that cannot be read more than once.
    ///
    /// # Errors
    ///
    /// The first file that is not there, or is no plain one.
    pub fn check(&self) -> Result<(), UsageError> {
        self.files().try_for_each(check_plain)
    }

    /// Begins to read.
    ///
    /// # Errors
    ///
    /// A file that is not there, is a folder, or cannot be read.
    pub fn read(&self, reading: Reading) -> Result<Pairs, UsageError> {
        let Reading { lossy, most_bytes } = reading;
        let source = Lines::open(&self.source, lossy)?;
        let form = match &self.target {
            Some(target) => Form::Files(Lines::open(target, lossy)?),
            None if is_json_lines(&self.source) => {
                let [source, target] = match &self.fields {
                    Some([source, target]) => [source.as_str(), target],
                    None => ["source", "target"],
                };
                Form::JsonLines([source, target].map(String::from))
            }
            None => Form::Table,
        };
        Ok(Pairs {
            source,
            form,
            most_bytes,
            met: Met::default(),
            has_ended: false,
        })
    }

    /// What the files hold, in their order.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn fingerprints(&self) -> Result<Vec<Fingerprint>, UsageError> {
        self.files().map(fingerprint).collect()
    }
}

/// Whether a file of pairs is JSON Lines, by its name.
pub fn is_json_lines(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".jsonl", ".ndjson", ".json"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

/// Reads a file whole, a piece at a time.
fn fingerprint(path: &Path) -> Result<Fingerprint, UsageError> {
    check_plain(path)?;
    let mut file = open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut size = 0;
    loop {
        let n = file
            .read(&mut buffer)
            .map_err(|error| cannot_read(path, &error))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        size += n as u64;
    }
    Ok(Fingerprint {
        size,
        sha256: hex(&hash.finalize()),
    })
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a pair stands in the file of sources.
enum Form {
    /// The target is the line of another file.
    Files(Lines),
    /// Both are columns of one line.
    Table,
    /// Both are fields of one object.
    JsonLines([String; 2]),
}

/// The pairs of a corpus, in their order.
pub struct Pairs {
    source: Lines,
    form: Form,
    most_bytes: usize,
    met: Met,
    has_ended: bool,
}

impl Pairs {
    /// What was met so far.
    pub fn met(&self) -> Met {
        let of_targets = match &self.form {
            Form::Files(target) => target.replaced,
            _ => 0,
        };
        Met {
            replaced: self.source.replaced + of_targets,
            ..self.met
        }
    }

    /// The next pair, empty or not.
    fn any(&mut self) -> Result<Option<Pair>, UsageError> {
        let line = self.source.next()?;
        let lines = &self.source;
        match &mut self.form {
            Form::Files(targets) => match (line, targets.next()?) {
                (Some(source), Some(target)) => Ok(Some(Pair { source, target })),
                (None, None) => Ok(None),
                _ => Err(self.different()?),
            },
            Form::Table => match line {
                Some(line) => {
                    let (pair, is_wide) = columns(lines, &line)?;
                    self.met.wide += u64::from(is_wide);
                    Ok(Some(pair))
                }
                None => Ok(None),
            },
            Form::JsonLines(fields) => match line {
                // A line break at the end of the file is no object.
                Some(line) if line.trim().is_empty() => Ok(Some(Pair {
                    source: String::new(),
                    target: String::new(),
                })),
                Some(line) => object(lines, fields, &line).map(Some),
                None => Ok(None),
            },
        }
    }

    /// The error that two files have different numbers of lines.
    fn different(&mut self) -> Result<UsageError, UsageError> {
        let source = std::mem::replace(&mut self.source, Lines::nothing());
        let form = std::mem::replace(&mut self.form, Form::Table);
        let Form::Files(target) = form else {
            unreachable!("there are two files");
        };
        let path = source.path.clone();
        let target_path = target.path.clone();
        let what = format!(
            "has {} lines, but {} has {}: line by line, they must be translations",
            source.count()?,
            target_path.display(),
            target.count()?
        );
        Ok(wrong(&path, what))
    }
}

fn columns(lines: &Lines, line: &str) -> Result<(Pair, bool), UsageError> {
    let mut columns = line.split('\t');
    let (Some(source), Some(target)) = (columns.next(), columns.next()) else {
        if line.trim().is_empty() {
            let nothing = String::new;
            let (source, target) = (nothing(), nothing());
            return Ok((Pair { source, target }, false));
        }
        let what = format!(
            "line {} is {}, but must be SOURCE<TAB>TARGET",
            lines.number,
            quote(line)
        );
        return Err(wrong(&lines.path, what));
    };
    let pair = Pair {
        source: source.into(),
        target: target.into(),
    };
    Ok((pair, columns.next().is_some()))
}

fn object(lines: &Lines, fields: &[String; 2], line: &str) -> Result<Pair, UsageError> {
    let number = lines.number;
    let refuse = |what: String| wrong(&lines.path, format!("line {number} {what}"));
    let object: Value = serde_json::from_str(line).map_err(|error| {
        let what = "must be one JSON object, whole on its line";
        refuse(format!("{what} ({error}): {}", quote(line)))
    })?;
    let field = |name: &String| {
        let mut value = Some(&object);
        if object.get(name).is_some() {
            value = object.get(name);
        } else {
            for part in name.split('.') {
                value = value.and_then(|value| value.get(part));
            }
        }
        match value {
            // A sentence is one line, wherever it comes from.
            Some(Value::String(text)) => Ok(text.replace(['\n', '\r'], " ")),
            Some(other) => {
                let other = quote(&other.to_string());
                let name = quote(name);
                Err(refuse(format!(
                    "has {other} in its field {name}, which must be a text"
                )))
            }
            None => Err(refuse(format!(
                "has no field {}: {}; name the fields with --fields SOURCE,TARGET",
                quote(name),
                quote(line)
            ))),
        }
    };
    Ok(Pair {
        source: field(&fields[0])?,
        target: field(&fields[1])?,
    })
}

impl Iterator for Pairs {
    type Item = Result<Pair, UsageError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            match self.any() {
                Ok(None) => self.has_ended = true,
                Ok(Some(pair)) => {
                    if pair.source.trim().is_empty() || pair.target.trim().is_empty() {
                        self.met.empty += 1;
                    } else if pair.source.len().max(pair.target.len()) > self.most_bytes {
                        self.met.huge += 1;
                    } else {
                        self.met.pairs += 1;
                        return Some(Ok(pair));
                    }
                }
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Met {
    /// What the user should know, besides the number of pairs; nothing where all is well.
    pub fn notes(&self) -> Vec<String> {
        let Self {
            empty,
            replaced,
            wide,
            huge,
            ..
        } = *self;
        let mut notes = Vec::new();
        if huge > 0 {
            let what = "pairs left out, a side of which has too many bytes for --max-length";
            notes.push(format!("{huge} {what}"));
        }
        if empty > 0 {
            notes.push(format!("{empty} pairs left out, a side of which is empty"));
        }
        if replaced > 0 {
            notes.push(format!("{replaced} lines that are not UTF-8, replaced"));
        }
        if wide > 0 {
            let what = "lines with more than two columns, of which the first two are taken";
            notes.push(format!("{wide} {what}"));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
