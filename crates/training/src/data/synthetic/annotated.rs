//! The copy task of the Annotated Transformer (its section "A First Example").

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Alphabet, SyntheticTask};
use crate::data::DataRng;
use crate::setting::settings;

settings! {
    /// Settings of [`AnnotatedCopy`], which has none.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct AnnotatedConfig in "data." {}
}

/// Task of copying 10 symbols. The first symbol is always `1`, which is also the begin symbol of
/// targets. The others are random symbols from `1` to `10`. Targets have no end symbol.
#[derive(Clone, Debug)]
pub struct AnnotatedCopy(Alphabet);

impl AnnotatedCopy {
    const SYMBOLS: u32 = 10;
    const LENGTH: usize = 10;
}

impl Default for AnnotatedCopy {
    fn default() -> Self {
        let tokens = (0..=Self::SYMBOLS).map(|id| id.to_string());
        Self(Alphabet::from_tokens(tokens.collect(), 1, None))
    }
}

impl SyntheticTask for AnnotatedCopy {
    fn alphabet(&self) -> &Alphabet {
        &self.0
    }

    fn lengths(&self) -> RangeInclusive<usize> {
        Self::LENGTH..=Self::LENGTH
    }

    fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        let mut source = self.0.draw(length, rng);
        source[0] = self.0.bos_id();
        let target = source[1..].to_vec();
        (source, target)
    }

    fn max_tokens(&self, length: usize) -> usize {
        length
    }

    // The default implementation would also draw a random length, although only one length is
    // possible. Sequences would then get other random numbers, and the losses in the documentation
    // would change.
    fn draw(&self, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        self.pair(Self::LENGTH, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::example;
    use super::*;
    use crate::data::dataset::Dataset;
    use crate::data::split::Split;

    #[test]
    fn sequences_begin_with_1() {
        let task = AnnotatedCopy::default();
        for index in 0..100 {
            let example = example(&task, 0, Split::Train, index);
            assert_eq!(example.source.len(), 10);
            assert_eq!(example.source[0], task.alphabet().bos_id());
            assert_eq!(example.target, example.source);
            assert_eq!(example.output(false), &example.source[1..]);
        }
    }

    #[test]
    fn only_symbols_are_encoded() {
        let task = AnnotatedCopy::default();
        let codec = task.codec();
        for word in ["0", "11", "01", "<pad>"] {
            let error = codec.encode_source(word).unwrap_err().to_string();
            assert!(error.ends_with("which are 1 to 10 in this run"), "{error}");
        }
        assert_eq!(codec.target_id("0"), Ok(0));
        let vocabularies = codec.vocabularies();
        assert_eq!(vocabularies.source_size, 11);
        assert_eq!(
            (vocabularies.pad_ids.source, vocabularies.eos_id),
            (0, None)
        );
        assert_eq!(task.limits().sequence(), 10);
    }
}
