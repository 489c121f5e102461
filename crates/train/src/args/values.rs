//! Choices of flags that accept a fixed set of values.

use clap::ValueEnum;

use super::parse::Choices;

/// Choices of `--schedule`.
pub const SCHEDULE: Choices = &[
    "noam: With the inverse square root of the step, as in the paper",
    "linear: Linearly to 0 at the last step",
    "cosine: Along half a cosine to 0 at the last step",
];

/// Choices of `--optimizer`.
pub const OPTIMIZER: Choices = &[
    "adam: Adam, as in the paper",
    "adamw: Adam with decoupled weight decay",
];

/// Choices of `--precision`.
pub const PRECISION: Choices = &[
    "f32: 32 bits",
    "f16: 16 bits, 5 of them for the exponent; the loss is scaled",
    "bf16: 16 bits, 8 of them for the exponent",
];

/// Choices of `--best-by`.
pub const BEST_BY: Choices = &[
    "loss: Smallest validation loss",
    "exact-match: Largest exact match on the validation split",
    "bleu: Largest BLEU on the validation split (text only)",
];

/// Choices of `--tokenizer`.
pub const TOKENIZER: Choices = &[
    "bpe: Byte-pair encoding of bytes: every text can be encoded, and decoded exactly",
    "unigram: Pieces of words by a unigram language model, as in SentencePiece; training it again may number some rare pieces differently",
    "word: Words and punctuation that occur at least twice",
    "char: Characters",
];

/// Choices of `--normalize`.
pub const NORMALIZATION: Choices = &[
    "nfc: Canonical composition",
    "nfd: Canonical decomposition",
    "nfkc: Compatibility composition: full-width letters and ligatures become plain ones, too",
    "nfkd: Compatibility decomposition",
];

/// Choices of `--overlong`.
pub const OVERLONG: Choices = &["drop: Skip such pairs", "cut: Truncate the longer sides"];

/// Choices of `--tokenize`.
pub const BLEU_TOKENIZER: Choices = &[
    "13a: That of mteval-v13a, which published scores use",
    "none: Splits at white space only, for texts that are tokenised already",
];

/// Choices of `--split`.
pub const HELD_OUT: Choices = &[
    "validation: Evaluated during training",
    "test: Decoded at the end of training",
];

/// Choices of `--length-penalty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Penalty {
    /// By log-probability
    None,
    /// By mean log-probability per token
    Average,
    /// By log-probability / ((5 + length) / 6)^alpha, as in the paper
    Gnmt,
    /// By log-probability / length^alpha, as in Hugging Face's library
    Power,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use training::config::{BestBy, OptimizerKind, Precision, ScheduleKind};
    use training::data::Split;
    use training::data::parallel::{Normalization, Overlong, TokenizerKind};
    use training::metrics::Tokenizer;

    use super::*;
    use crate::args::parse::described;

    fn names(choices: Choices) -> Vec<String> {
        described(choices).map(|(name, _)| name.into()).collect()
    }

    /// Returns the names of the variants of an enum in `config.json`, in order. serde lists them in
    /// its error about an unknown variant.
    fn variants<T: DeserializeOwned>() -> Vec<String> {
        let error = serde_json::from_str::<T>("\"?\"")
            .err()
            .unwrap()
            .to_string();
        let (_, expected) = error.split_once("expected").unwrap();
        let quoted = expected.split('`').skip(1).step_by(2);
        quoted.map(String::from).collect()
    }

    fn check<T: DeserializeOwned>(choices: Choices) {
        assert_eq!(names(choices), variants::<T>());
        for (name, help) in described(choices) {
            assert!(!help.is_empty(), "{name}");
            serde_json::from_str::<T>(&format!("\"{name}\"")).unwrap();
        }
    }

    #[test]
    fn choices_are_all_variants_by_their_names_in_files() {
        check::<ScheduleKind>(SCHEDULE);
        check::<OptimizerKind>(OPTIMIZER);
        check::<Precision>(PRECISION);
        check::<BestBy>(BEST_BY);
        check::<TokenizerKind>(TOKENIZER);
        check::<Normalization>(NORMALIZATION);
        check::<Overlong>(OVERLONG);
        let [train, held_out @ ..] = &variants::<Split>()[..] else {
            panic!("there are splits");
        };
        assert_eq!((train.as_str(), held_out), ("train", &names(HELD_OUT)[..]));
    }

    #[test]
    fn choices_are_all_tokenizers() {
        let tokenizers = Tokenizer::ALL.map(|tokenizer| tokenizer.name().to_string());
        assert_eq!(names(BLEU_TOKENIZER), tokenizers);
    }
}
