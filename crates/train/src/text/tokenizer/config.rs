//! Which tokenisers a run has.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What tokens are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerKind {
    /// Byte-pair encoding of bytes: every text has tokens, and comes back as it was
    #[default]
    Bpe,
    /// Pieces of words by a unigram language model, as SentencePiece has them; training it twice may
    /// number some rare pieces otherwise
    Unigram,
    /// Words and punctuation that stand there twice at least
    Word,
    /// Characters
    Char,
}

/// Unicode normal forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Canonical, composed
    Nfc,
    /// Canonical, decomposed
    Nfd,
    /// Compatible, composed: full-width letters and ligatures become plain ones, too
    Nfkc,
    /// Compatible, decomposed
    Nfkd,
}

/// Which tokenisers a run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerConfig {
    /// What tokens are.
    pub kind: TokenizerKind,
    /// Tokens of a vocabulary, special ones included.
    pub vocab_size: usize,
    /// Whether fewer tokens will do where the corpus has no more.
    pub or_fewer: bool,
    /// Whether sources and targets have one vocabulary.
    pub joint: bool,
    /// Whether all letters become small ones.
    pub lower_case: bool,
    /// What texts are brought into first.
    pub normalization: Option<Normalization>,
    /// A `tokenizer.json` for sources, instead of a trained one.
    pub source_file: Option<PathBuf>,
    /// A `tokenizer.json` for targets, instead of a trained one.
    pub target_file: Option<PathBuf>,
}

impl TokenizerConfig {
    /// Byte-level BPE of so many tokens a side, or fewer.
    pub fn new(vocab_size: usize) -> Self {
        Self {
            kind: TokenizerKind::Bpe,
            vocab_size,
            or_fewer: true,
            joint: false,
            lower_case: false,
            normalization: None,
            source_file: None,
            target_file: None,
        }
    }
}
