//! Translation between text and token ids.

use super::sides::Sides;
use crate::error::quote;
use crate::notes;
use crate::number::grouped;

/// Sizes and special tokens of the source and target vocabularies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabularies {
    /// Size of the source vocabulary. All token ids are less than this number.
    pub source_size: usize,
    /// Size of the target vocabulary. All token ids are less than this number.
    pub target_size: usize,
    /// Ids of the padding tokens of sources and targets.
    pub pad_ids: Sides<u32>,
    /// Id of the begin symbol, the first token of every target.
    pub bos_id: u32,
    /// Id of the end symbol, the last token of every target; `None` if targets have none.
    pub eos_id: Option<u32>,
}

/// Translates between the text that people write and the token ids that a model reads.
///
/// ```
/// use training::data::synthetic::{Rule, SequenceConfig, SequenceTask};
/// use training::data::{Codec, Dataset};
///
/// let task = SequenceTask::new(Rule::Sort, &SequenceConfig::default())?;
/// let codec: &dyn Codec = task.codec();
/// let ids = codec.encode_source("3 1 2")?;
/// assert_eq!(codec.decode_source(&ids), "3 1 2");
/// assert_eq!(codec.decode_target(&Rule::Sort.apply(&ids)), "1 2 3");
/// assert_eq!(codec.target_id("<eos>")?, codec.vocabularies().eos_id.unwrap());
/// let error = codec.encode_source("1 x").unwrap_err();
/// let expected = "\"x\" is not a symbol, which are 1 to 32 in this run";
/// assert_eq!(error.to_string(), expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Codec: Send + Sync {
    /// Returns the sizes and special tokens of both vocabularies.
    fn vocabularies(&self) -> Vocabularies;

    /// Returns the token ids of a source text, as the encoder reads them.
    ///
    /// # Errors
    ///
    /// If a word cannot be translated into token ids. The error names the first such word.
    fn encode_source(&self, text: &str) -> Result<Vec<u32>, EncodeError>;

    /// Returns the token ids of a target text, without begin and end symbol.
    ///
    /// # Errors
    ///
    /// If a word cannot be translated into token ids. The error names the first such word.
    fn encode_target(&self, text: &str) -> Result<Vec<u32>, EncodeError>;

    /// Returns the text of source token ids, as a person would write it.
    fn decode_source(&self, ids: &[u32]) -> String;

    /// Returns the text of target token ids, as a person would write it.
    fn decode_target(&self, ids: &[u32]) -> String;

    /// Returns the name of a source token.
    fn source_token(&self, id: u32) -> String;

    /// Returns the name of a target token.
    fn target_token(&self, id: u32) -> String;

    /// Returns the label of a source token in a plot. Labels lack the marks that tokenisers use for
    /// blanks and parts of words. By default, the label is the token's name.
    fn source_label(&self, id: u32) -> String {
        self.source_token(id)
    }

    /// Returns the label of a target token in a plot; see [`source_label`](Self::source_label).
    fn target_label(&self, id: u32) -> String {
        self.target_token(id)
    }

    /// Adds to `counts`, for an encoded source and an encoded target, how many tokens stand for text
    /// outside the vocabulary, and how many tokens the text has. By default, nothing is outside, and
    /// nothing is added. [`note_unknown`] reports the counts.
    fn count_unknown(&self, _texts: [&[u32]; 2], _counts: &mut UnknownCounts) {}

    /// Returns the id of the target token with this name, special tokens included.
    ///
    /// # Errors
    ///
    /// If no token has this name.
    fn target_id(&self, name: &str) -> Result<u32, EncodeError>;
}

/// Of sources and of targets, the number of unknown tokens and of all tokens.
pub type UnknownCounts = [[usize; 2]; 2];

/// Says how many tokens of the sources and of the targets are unknown, if some are: the texts may be
/// in another language. `of` says which texts they are.
pub fn note_unknown(counts: UnknownCounts, of: &str) {
    for (side, [unknown, all]) in ["source", "target"].into_iter().zip(counts) {
        if unknown > 0 {
            let [unknown, all] = [unknown, all].map(grouped);
            let what = format!("{side} tokens{of} are unknown to the vocabulary");
            notes::note(&format!("{unknown} of {all} {what}"));
        }
    }
}

/// Error about a word that cannot be translated into a token id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a symbol, which are {symbols} in this run", quote(word))]
pub struct EncodeError {
    /// The word as it was written.
    pub word: String,
    /// Description of the known symbols, such as `1 to 32`.
    pub symbols: String,
}
