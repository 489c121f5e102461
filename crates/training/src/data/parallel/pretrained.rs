//! Settings of a data set whose tokeniser belongs to a pretrained model.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transformer::generate::GenerateDefaults;

use crate::data::Sides;
use crate::setting::{computed, declarations, text};

/// Default `batch_tokens` of a run that fine-tunes a pretrained model.
pub(crate) const BATCH_TOKENS: usize = 2048;

/// Maximum length of a side of a training pair, in tokens, by which a run that fine-tunes a pretrained
/// model begins.
const MAX_LENGTH: usize = 256;

/// The tokeniser of a pretrained model, and the model's settings that concern texts. Texts get the
/// special tokens of the template in `tokenizer.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainedConfig {
    /// Folder that the model was read from.
    pub folder: PathBuf,
    /// Hash of the model's parameters; `None` before training begins.
    pub sha256: Option<String>,
    /// Size of the model's vocabularies, which may be larger than those of its tokeniser.
    pub vocab_size: Sides<usize>,
    /// Maximum number of tokens of a sequence that the model accepts, special tokens included.
    pub max_tokens: usize,
    /// Id of the padding token.
    pub pad_id: u32,
    /// Language of sources, such as `eng_Latn`; `None` for the language in the tokeniser's
    /// template, if it has one.
    pub source_language: Option<String>,
    /// Language of targets; `None` for the language in the model's files, if they name one.
    pub target_language: Option<String>,
    /// Generation settings from the model's files. If `target_language` is set, it determines the
    /// prefix instead.
    pub search: GenerateDefaults,
}

impl PretrainedConfig {
    /// Returns the default maximum length of texts that the model is fine-tuned with, in tokens.
    pub fn usual_length(&self) -> usize {
        // The tokens that begin and end a text need positions, too.
        self.max_tokens.saturating_sub(2).clamp(1, MAX_LENGTH)
    }
}

declarations! {
    /// Declarations of the settings of a data set whose tokeniser belongs to a pretrained model.
    pub struct PretrainedSettings for PretrainedConfig in "data.pretrained." {
        /// Fine-tune the model in this Hugging Face folder, with its tokeniser.
        folder: PathBuf, text();
        /// Hash of the model's parameters.
        sha256: Option<String>, computed();
        /// Size of the model's vocabularies.
        vocab_size: Sides<usize>, computed();
        /// Maximum number of tokens of a sequence.
        max_tokens: usize, computed();
        /// Id of the padding token.
        pad_id: u32, computed();
        /// Language of the sources, such as eng_Latn, if the model is multilingual.
        source_language: Option<String>, text();
        /// Language of the targets, such as deu_Latn, if the model is multilingual.
        target_language: Option<String>, text();
        /// Generation settings of the model.
        search: GenerateDefaults, computed();
    }
}
