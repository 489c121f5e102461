//! Choices of flags that accept a fixed set of values.

use clap::ValueEnum;

use super::parse::Choices;

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
    use training::metrics::Tokenizer;

    use super::*;
    use crate::args::parse::described;

    #[test]
    fn choices_are_all_tokenizers() {
        let tokenizers = Tokenizer::ALL.map(|tokenizer| tokenizer.name().to_string());
        let names = described(BLEU_TOKENIZER).map(|(name, _)| name);
        assert!(names.eq(tokenizers));
    }
}
