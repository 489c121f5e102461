//! Parallel corpora in files: two files of lines, a table of two columns, or JSON Lines. Files may
//! be plain or gzip. A corpus is read pair by pair, so that it may be larger than memory.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transformer::weights::Unique;

use super::lines::{Lines, wrong};
use super::tokenizer::LONGEST_TEXT;
use crate::error::{UsageError, quote};
use crate::number::counted;
use crate::setting::{custom, declarations, text};

/// The files of a parallel corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// File of sources, one per line. If `target` is `None`, this is a file of pairs: JSON Lines if
    /// its name, without `.gz`, ends with `.jsonl`, `.ndjson` or `.json`, else lines
    /// `SOURCE<TAB>TARGET`. All files may be compressed by gzip.
    pub source: PathBuf,
    /// File of targets, one per line; `None` if `source` is a file of pairs.
    pub target: Option<PathBuf>,
    /// Names of the JSON fields of source and target, such as `translation.en` for a nested field.
    /// `None` stands for the names `source` and `target`.
    pub fields: Option<[String; 2]>,
}

impl Corpus {
    /// A corpus without files.
    pub(crate) const EMPTY: Self = Self {
        source: PathBuf::new(),
        target: None,
        fields: None,
    };
}

declarations! {
    /// Declarations of the settings of the training corpus.
    pub struct TrainSettings for Corpus in "data.train." {
        /// Source texts to train on, one per line; or pairs in one file: JSON Lines if its name ends
        /// with .jsonl, .ndjson or .json, otherwise lines `SOURCE<TAB>TARGET`; all corpora may be
        /// compressed by gzip.
        source: PathBuf, text().flag("--train-source", "FILE").local().may_change();
        /// Translations of --train-source, line by line; none for pairs in one file.
        target: Option<PathBuf>, text().flag("--train-target", "FILE").local().may_change();
        /// Fields of source and target in JSON Lines, such as translation.de,translation.en.
        fields: Option<[String; 2]>, custom(names).rare_flag("--fields", "SOURCE,TARGET").local().may_change();
    }
}

declarations! {
    /// Declarations of the settings of the validation corpus.
    pub struct ValidSettings for Corpus in "data.valid." {
        /// Texts or pairs to validate on, as --train-source; without them, pairs are held out.
        source: PathBuf, text().flag("--valid-source", "FILE").local().may_change();
        /// Translations of --valid-source, line by line; none for pairs in one file.
        target: Option<PathBuf>, text().flag("--valid-target", "FILE").local().may_change();
        /// Fields of source and target in JSON Lines.
        fields: Option<[String; 2]>, custom(names).local().may_change();
    }
}

/// Reads the names of two fields: an array, or a text `SOURCE,TARGET`.
fn names(value: &Value) -> Result<Value, String> {
    let names: Vec<&str> = match value {
        Value::String(text) => text.split(',').collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    match names[..] {
        [source, target] if !source.is_empty() && !target.is_empty() => Ok(names.into()),
        _ => Err("must be two names with a comma between them: SOURCE,TARGET".into()),
    }
}

/// A source text and its target text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The source text.
    pub source: String,
    /// The target text.
    pub target: String,
}

/// Options for reading texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Whether invalid UTF-8 is replaced; otherwise it is an error.
    pub lossy: bool,
    /// Whether a side that is longer than 64 KiB is truncated; otherwise its pair is
    /// skipped.
    pub truncates: bool,
    /// Whether pairs with an empty side are kept, and blank lines are pairs of empty texts; otherwise
    /// they are skipped.
    pub keeps_empty: bool,
}

/// Counts of the pairs and lines that were read from a corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusStats {
    /// Number of pairs returned.
    pub pairs: u64,
    /// Number of pairs skipped because the source or the target is empty or has only white space.
    pub empty: u64,
    /// Number of lines in which invalid UTF-8 was replaced.
    pub replaced: u64,
    /// Number of pairs skipped because the source or the target is longer than 64 KiB.
    pub too_long: u64,
    /// Number of pairs of which a side was truncated to 64 KiB.
    pub truncated: u64,
    /// Number of pairs from two files of which a side has a tab.
    pub tabs: u64,
    /// Number of texts of JSON Lines in which line breaks were replaced.
    pub breaks: u64,
}

impl Corpus {
    /// Returns the paths of the files, of which a corpus without sources has none.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = std::iter::once(&self.source).chain(&self.target);
        let files = files.filter(|_| !self.source.as_os_str().is_empty());
        files.map(PathBuf::as_path)
    }

    /// Returns whether the file is one of JSON Lines, whose fields have names.
    pub(crate) fn has_fields(&self) -> bool {
        self.target.is_none() && is_json_lines(&self.source)
    }

    /// Opens the files and returns an iterator over their pairs.
    ///
    /// # Errors
    ///
    /// If a file does not exist, is a folder, or cannot be read, or if JSON Lines have a file of
    /// targets.
    pub fn read(&self, options: ReadOptions) -> Result<Pairs, UsageError> {
        let lossy = options.lossy;
        if let Some(target) = self.target.as_ref().filter(|_| is_json_lines(&self.source)) {
            let target = target.display();
            let expected =
                format!("is JSON Lines, which have the targets, too: leave out {target}");
            return Err(wrong(&self.source, expected));
        }
        let source = Lines::open(&self.source, lossy)?;
        let format = match &self.target {
            Some(target) => Format::TwoFiles(Lines::open(target, lossy)?),
            None if self.has_fields() => {
                let default = || ["source", "target"].map(String::from);
                Format::JsonLines(self.fields.clone().unwrap_or_else(default))
            }
            None => Format::Table,
        };
        Ok(Pairs {
            source,
            format,
            options,
            stats: CorpusStats::default(),
            has_ended: false,
        })
    }
}

/// Returns whether a file of pairs is JSON Lines, according to its name.
pub fn is_json_lines(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let mut endings = [".jsonl", ".ndjson", ".json"].iter();
    endings.any(|ending| name.ends_with(ending))
}

/// Format of a corpus, which says where the target of a source is.
enum Format {
    /// The target is in the same line of another file.
    TwoFiles(Lines),
    /// The target is in the second column of the line.
    Table,
    /// Source and target are in one JSON object per line, in fields with these names.
    JsonLines([String; 2]),
}

/// Iterator over the pairs of a corpus, in their order. The [`ReadOptions`] say what happens to pairs
/// whose source or target is empty or too long.
pub struct Pairs {
    source: Lines,
    format: Format,
    options: ReadOptions,
    stats: CorpusStats,
    has_ended: bool,
}

impl Pairs {
    /// Returns the counts of what has been read so far.
    pub fn stats(&self) -> CorpusStats {
        let in_targets = match &self.format {
            Format::TwoFiles(target) => target.replaced,
            _ => 0,
        };
        CorpusStats {
            replaced: self.source.replaced + in_targets,
            ..self.stats
        }
    }

    /// Returns the next pair, even if its source or target is empty or too long; `None` at the end
    /// of the files. A blank line of a table or of JSON Lines is a pair of empty texts if empty ones
    /// are kept, so that outputs have the order of the lines; otherwise it is skipped.
    fn next_pair(&mut self) -> Result<Option<Pair>, UsageError> {
        let mut line = self.source.next()?;
        if !matches!(self.format, Format::TwoFiles(_)) {
            let is_table = matches!(self.format, Format::Table);
            let is_blank =
                |line: &String| line.trim().is_empty() && !(is_table && line.contains('\t'));
            while line.as_ref().is_some_and(is_blank) {
                if self.options.keeps_empty {
                    return Ok(Some(Pair::default()));
                }
                self.stats.empty += 1;
                line = self.source.next()?;
            }
        }
        match (&mut self.format, line) {
            (Format::TwoFiles(targets), line) => match (line, targets.next()?) {
                (Some(source), Some(target)) => Ok(Some(Pair { source, target })),
                (None, None) => Ok(None),
                _ => Err(different_lengths(&mut self.source, targets)?),
            },
            (_, None) => Ok(None),
            (Format::Table, Some(line)) => columns(&self.source, &line).map(Some),
            (Format::JsonLines(fields), Some(line)) => {
                let texts = object(&self.source, fields, &line)?;
                let has_break = |text: &&String| text.contains(['\n', '\r']);
                self.stats.breaks += texts.iter().filter(has_break).count() as u64;
                // A text must be one line.
                let [source, target] = texts.map(|text| text.replace(['\n', '\r'], " "));
                Ok(Some(Pair { source, target }))
            }
        }
    }
}

/// Returns the error that says how many lines each of the two files has. Reads the rest of both
/// files to count their lines, and fails if that is not possible.
fn different_lengths(source: &mut Lines, target: &mut Lines) -> Result<UsageError, UsageError> {
    let (n, other) = (source.count()?, target.count()?);
    let path = target.path.display();
    let n = counted(n as usize, "line");
    let what = format!("has {n}, but {path} has {other}: line by line they must be translations");
    Ok(wrong(&source.path, what))
}

/// Splits a line of a table at its tab.
fn columns(lines: &Lines, line: &str) -> Result<Pair, UsageError> {
    match line.split_once('\t') {
        Some((source, target)) if !target.contains('\t') => Ok(Pair {
            source: source.into(),
            target: target.into(),
        }),
        _ => {
            let found = match line.split('\t').count() {
                1 => "no tab".into(),
                n => format!("{n} columns"),
            };
            let what = format!(
                "has {found}, but must be SOURCE<TAB>TARGET, unless the targets have a file of their own: {}",
                quote(line)
            );
            Err(lines.wrong(&what))
        }
    }
}

/// Returns the source and the target in a line of JSON Lines.
fn object(lines: &Lines, fields: &[String; 2], line: &str) -> Result<[String; 2], UsageError> {
    let wrong = |what: String| lines.wrong(&format!("{what}: {}", quote(line)));
    if line.trim_start().starts_with('[') {
        let what = "begins an array, but must be one JSON object, as `jq -c .[]` writes each";
        return Err(wrong(what.into()));
    }
    let Unique(object) = serde_json::from_str(line).map_err(|error| {
        let what = "must be one JSON object, whole on its line";
        wrong(format!("{what} ({error})"))
    })?;
    let field = |name: &String| {
        let mut path = name.split('.');
        let nested = || path.try_fold(&object, |value, part| value.get(part));
        match object.get(name).or_else(nested) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => {
                let is = match other {
                    Value::Null => "null",
                    Value::Bool(_) => "true or false",
                    Value::Number(_) => "a number",
                    Value::Array(_) => "an array",
                    _ => "an object",
                };
                let name = quote(name);
                let what = format!("has {is} in its field {name}, which must be a text");
                Err(lines.wrong(&what))
            }
            None => {
                let (name, path) = (quote(name), TrainSettings::fields.name());
                let what = format!("has no field {name} ({path} names the fields)");
                Err(wrong(what))
            }
        }
    };
    Ok([field(&fields[0])?, field(&fields[1])?])
}

impl Iterator for Pairs {
    type Item = Result<Pair, UsageError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            let mut pair = match self.next_pair().transpose() {
                Some(Ok(pair)) => pair,
                end_or_error => {
                    self.has_ended = true;
                    return end_or_error;
                }
            };
            let is_empty = pair.source.trim().is_empty() || pair.target.trim().is_empty();
            if is_empty && !self.options.keeps_empty {
                self.stats.empty += 1;
                continue;
            }
            if pair.source.len().max(pair.target.len()) > LONGEST_TEXT {
                if !self.options.truncates {
                    self.stats.too_long += 1;
                    continue;
                }
                self.stats.truncated += 1;
                for text in [&mut pair.source, &mut pair.target] {
                    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
                }
            }
            let has_tab = pair.source.contains('\t') || pair.target.contains('\t');
            self.stats.tabs += u64::from(has_tab && matches!(self.format, Format::TwoFiles(_)));
            self.stats.pairs += 1;
            return Some(Ok(pair));
        }
        None
    }
}

impl CorpusStats {
    /// Returns a message about pairs that are likely to be read wrongly; `None` without any.
    pub fn warning(&self) -> Option<String> {
        let pairs = counted(self.tabs as usize, "pair");
        let what =
            "with a tab in a side: a file of SOURCE<TAB>TARGET is read without one of targets";
        (self.tabs > 0).then(|| format!("{pairs} {what}"))
    }

    /// Returns a message for each kind of pair or line that was skipped or changed.
    pub fn notes(&self) -> Vec<String> {
        let long = format!("with a side of more than {} KiB", LONGEST_TEXT >> 10);
        let (replaced, breaks) = (self.replaced, self.breaks);
        let invalid = "invalid bytes were replaced";
        let notes = [
            (self.too_long, "pair", "skipped", &long[..]),
            (self.truncated, "pair", "truncated", &long),
            (self.empty, "pair", "skipped", "a side is empty"),
            (replaced, "line", "not in UTF-8", invalid),
            (breaks, "text", "with line breaks", "a blank replaces each"),
        ];
        let notes = notes.into_iter().filter(|(count, ..)| *count > 0);
        let note =
            |(count, of, what, why)| format!("{} {what}: {why}", counted(count as usize, of));
        notes.map(note).collect()
    }
}

#[cfg(test)]
mod tests;
