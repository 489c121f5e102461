//! A pretrained model's tokeniser and settings of generation as a data set without examples.

use transformer::TransformerConfig;
use transformer::generate::LengthLimit;

use super::codec::PretrainedCodec;
use super::generation::Generation;
use crate::data::{Codec, Dataset, Example, Limits, Scorer, SearchDefaults, Split};
use crate::error::UsageError;
use crate::positions::max_tokens;

/// Maximum length of a text in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A data set that can encode and decode, but has no examples.
pub(super) struct Pretrained {
    codec: PretrainedCodec,
    search: SearchDefaults,
    /// Maximum number of tokens of a sequence.
    longest: usize,
}

impl Pretrained {
    pub fn new(
        codec: PretrainedCodec,
        generation: Generation,
        model: &TransformerConfig,
    ) -> Result<Self, UsageError> {
        let longest = max_tokens(model);
        // The language of the command takes the place of the one in the file.
        let first = codec.target_language.or(generation.forced_first);
        Ok(Self {
            search: SearchDefaults {
                beam: Some(generation.beam),
                prefix: first.into_iter().collect(),
                forbidden: generation.suppressed,
                no_repeat_ngram: generation.no_repeat_ngram,
                repetition_penalty: Some(generation.repetition_penalty),
                min_length: generation.min_length,
                early_stopping: generation.early_stopping,
                force_end: generation.force_end,
                normalize_first: generation.normalize_first,
                max_length: generation.max_length.map(|most| most.min(longest - 1)),
            },
            codec,
            longest,
        })
    }
}

impl Dataset for Pretrained {
    fn codec(&self) -> &dyn Codec {
        &self.codec
    }

    fn limits(&self) -> Limits {
        Limits {
            source: self.longest,
            target: self.longest,
            bytes: Some(MAX_BYTES),
            output: Some(LengthLimit {
                per_token: 3.0,
                more: 20,
            }),
        }
    }

    fn batch(&self, _seed: u64, _index: usize, _size: usize) -> Vec<Example> {
        Vec::new()
    }

    fn held_out(&self, _seed: u64, _split: Split, _n: usize) -> Vec<Example> {
        Vec::new()
    }

    fn scorer(&self) -> &dyn Scorer {
        self
    }

    fn search(&self) -> SearchDefaults {
        self.search.clone()
    }
}

impl Scorer for Pretrained {
    fn accepts(&self, example: &Example, output: &[u32]) -> bool {
        output == example.output(self.codec.vocabularies().eos_id.is_some())
    }

    fn reference(&self, _index: usize, example: &Example) -> String {
        let has_end = self.codec.vocabularies().eos_id.is_some();
        self.codec.decode_target(example.output(has_end))
    }
}
