//! Settings of tokenisers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::sides::Sides;

/// Kind of tokens that a tokeniser makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerKind {
    /// Byte-level byte-pair encoding. It can encode every text. Decoding returns the same text,
    /// except for normalisation, control characters, line breaks, and blanks at the ends.
    #[default]
    Bpe,
    /// Pieces of words by a unigram language model, as in SentencePiece. Ids of rare pieces may
    /// differ when the tokeniser is trained again.
    Unigram,
    /// Words and punctuation that occur at least twice.
    Word,
    /// Single characters.
    Char,
}

impl TokenizerKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Bpe, Self::Unigram, Self::Word, Self::Char];

    /// Returns the name of the kind in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpe => "bpe",
            Self::Unigram => "unigram",
            Self::Word => "word",
            Self::Char => "char",
        }
    }
}

/// Unicode normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Canonical composition.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatibility composition. It also replaces full-width letters and ligatures by plain ones.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
}

/// Settings of the tokenisers of sources and targets. The settings other than the paths of files
/// are for tokenisers that are trained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Kind of tokens.
    pub kind: TokenizerKind,
    /// Number of tokens of each vocabulary, special tokens included.
    pub vocab_size: Sides<usize>,
    /// Whether a vocabulary may have fewer than `vocab_size` tokens if the corpus does not have
    /// enough. Otherwise, such a corpus is an error.
    pub or_fewer: Sides<bool>,
    /// Whether a single tokeniser is trained for sources and targets. If it is, and only one of
    /// `source_file` and `target_file` is given, that file is ignored.
    pub joint: bool,
    /// Whether texts are converted to lower case.
    pub lower_case: bool,
    /// Unicode normal form of all texts; `None` leaves them as they are.
    pub normalization: Option<Normalization>,
    /// Path of a `tokenizer.json` for sources; `None` trains a tokeniser.
    pub source_file: Option<PathBuf>,
    /// Path of a `tokenizer.json` for targets; `None` trains a tokeniser.
    pub target_file: Option<PathBuf>,
}

impl TokenizerConfig {
    /// Returns settings of byte-level BPE with at most `vocab_size` tokens in each vocabulary.
    pub fn new(vocab_size: usize) -> Self {
        Self {
            vocab_size: Sides::both(vocab_size),
            or_fewer: Sides::both(true),
            ..Self::default()
        }
    }
}

/// The texts that a tokeniser is trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Texts {
    /// Only sources.
    Sources,
    /// Only targets.
    Targets,
    /// Sources and targets, for a joint tokeniser of both.
    Both,
}

impl Texts {
    /// Returns the name of the texts in errors and notes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sources => "sources",
            Self::Targets => "targets",
            Self::Both => "sources and targets",
        }
    }

    /// Returns the value for these texts. A joint tokeniser of sources and targets uses the value
    /// for sources.
    pub fn of<T>(self, sides: Sides<T>) -> T {
        match self {
            Self::Sources | Self::Both => sides.source,
            Self::Targets => sides.target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_configuration_files() {
        for kind in TokenizerKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for (form, name) in [
            (Normalization::Nfc, "nfc"),
            (Normalization::Nfd, "nfd"),
            (Normalization::Nfkc, "nfkc"),
            (Normalization::Nfkd, "nfkd"),
        ] {
            assert_eq!(serde_json::to_value(form).unwrap(), name);
        }
    }
}
