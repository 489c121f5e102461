//! Settings of a data set whose tokeniser belongs to a pretrained model.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::SearchDefaults;

/// The tokeniser of a pretrained model, and what the model's files say about its texts. Texts get
/// the special tokens of the template in `tokenizer.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PretrainedConfig {
    /// Folder that the model was read from.
    pub folder: PathBuf,
    /// Number of tokens of the model, which may be more than its tokeniser has.
    pub vocab_size: usize,
    /// Maximum number of tokens of a sequence of the model.
    pub max_tokens: usize,
    /// Id of the padding token.
    pub pad_id: u32,
    /// Id of the token that begins every target.
    pub start_id: u32,
    /// Id of the end symbol.
    pub end_id: u32,
    /// Language of sources, such as `eng_Latn`; `None` for that of the tokeniser's template.
    pub source_language: Option<String>,
    /// Language of targets; `None` for a model without languages.
    pub target_language: Option<String>,
    /// Settings of generation.
    pub search: SearchDefaults,
}
