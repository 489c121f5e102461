//! Settings of tokenisers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::sides::Sides;
use crate::setting::{choice, choices, settings, switch, text, whole};

choices! {
    /// Kind of tokens that a tokeniser makes.
    pub enum TokenizerKind {
        /// Byte-pair encoding of bytes: every text can be encoded, and decoded exactly.
        ///
        /// Exactly but for normalisation and blanks at the ends.
        Bpe = "bpe",
        /// Pieces of words by a unigram language model, as in SentencePiece; training it again may
        /// number some rare pieces differently.
        Unigram = "unigram",
        /// Words, and punctuation with the blanks beside it, that occur at least twice.
        Word = "word",
        /// Characters.
        Char = "char",
    }
}

choices! {
    /// Unicode normal form.
    pub enum Normalization {
        /// Canonical composition.
        Nfc = "nfc",
        /// Canonical decomposition.
        Nfd = "nfd",
        /// Compatibility composition: full-width letters and ligatures become plain ones, too.
        Nfkc = "nfkc",
        /// Compatibility decomposition.
        Nfkd = "nfkd",
    }
}

settings! {
    /// Settings of the tokenisers of sources and targets. The settings other than the paths of files
    /// are for tokenisers that are trained.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TokenizerConfig in "data.tokenizer." {
        /// Kind of tokens.
        kind: TokenizerKind = TokenizerKind::Bpe, choice(TokenizerKind::choices).flag("--tokenizer", "KIND");
        /// Tokens in each vocabulary, special tokens included.
        vocab_size: Sides<usize> = Sides { source: 0, target: 0 }, whole(5, 10_000_000).flag("--vocab-size", "N");
        /// Whether a vocabulary may be smaller if the corpus does not have enough tokens.
        ///
        /// Otherwise, such a corpus is an error.
        or_fewer: Sides<bool> = Sides { source: true, target: true }, switch();
        /// Use one vocabulary for sources and targets.
        ///
        /// If only one of `source_file` and `target_file` is given, it is ignored.
        joint: bool = false, switch().flag("--joint-vocabulary", "");
        /// Convert texts to lower case.
        lower_case: bool = false, switch().rare_flag("--lower-case", "");
        /// Unicode normal form of all texts.
        normalization: Option<Normalization> = None, choice(Normalization::choices);
        /// A tokenizer.json for sources, instead of a trained one.
        source_file: Option<PathBuf> = None, text().rare_flag("--source-tokenizer-file", "FILE");
        /// A tokenizer.json for targets, instead of a trained one.
        target_file: Option<PathBuf> = None, text().rare_flag("--target-tokenizer-file", "FILE");
    }
}

impl TokenizerConfig {
    /// Returns settings of byte-level BPE with at most `vocab_size` tokens in each vocabulary.
    pub fn new(vocab_size: usize) -> Self {
        Self {
            vocab_size: Sides::both(vocab_size),
            ..Self::DEFAULT
        }
    }
}

choices! {
    /// The texts that a tokeniser is trained on.
    pub enum Texts {
        /// Only sources.
        Sources = "sources",
        /// Only targets.
        Targets = "targets",
        /// Sources and targets, for a joint tokeniser of both.
        Both = "sources and targets",
    }
}

impl Texts {
    /// Returns the value for these texts. A joint tokeniser of sources and targets uses the value
    /// for sources.
    pub fn of<T>(self, sides: Sides<T>) -> T {
        match self {
            Self::Sources | Self::Both => sides.source,
            Self::Targets => sides.target,
        }
    }
}
