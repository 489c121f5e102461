//! Flags of `fit` about tokenisers.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use training::data::parallel::{Normalization, TokenizerConfig, TokenizerKind};
use training::error::UsageError;

use crate::args::check::{reject, set};
use crate::args::parse::{absolute, given, listed, recorded_path, whole_number};
use crate::args::values::{NORMALIZATION, TOKENIZER};

/// Flags of `fit` about tokenisers.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TokenizerArgs {
    /// Kind of tokens [default: bpe]
    #[arg(long, value_name = "KIND", value_parser = listed::<TokenizerKind>(TOKENIZER))]
    pub tokenizer: Option<TokenizerKind>,
    /// Number of tokens in each vocabulary [default: the preset's, or fewer if a corpus has fewer]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub vocab_size: Option<usize>,
    /// Tokens of the vocabulary of sources [default: --vocab-size]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub source_vocab_size: Option<usize>,
    /// Tokens of the vocabulary of targets [default: --vocab-size]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub target_vocab_size: Option<usize>,
    /// Use one vocabulary for sources and targets
    #[arg(long)]
    pub joint_vocabulary: bool,
    /// Convert texts to lower case
    #[arg(long)]
    pub lower_case: bool,
    /// Convert texts to a Unicode normal form [default: none]
    #[arg(long, value_name = "FORM", value_parser = listed::<Normalization>(NORMALIZATION))]
    pub normalize: Option<Normalization>,
    /// A tokenizer.json for both sides, instead of a trained one
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "source_tokenizer_file", "target_tokenizer_file", "tokenizer", "vocab_size",
        "source_vocab_size", "target_vocab_size", "joint_vocabulary", "lower_case", "normalize",
    ], value_parser = recorded_path())]
    pub tokenizer_file: Option<PathBuf>,
    /// A tokenizer.json for sources
    #[arg(long, value_name = "FILE", conflicts_with = "joint_vocabulary", value_parser = recorded_path())]
    pub source_tokenizer_file: Option<PathBuf>,
    /// A tokenizer.json for targets
    #[arg(long, value_name = "FILE", conflicts_with = "joint_vocabulary", value_parser = recorded_path())]
    pub target_tokenizer_file: Option<PathBuf>,
}

impl TokenizerArgs {
    /// Returns the names of the flags that are given, such as `--vocab-size`.
    ///
    /// # Errors
    ///
    /// If the value of a flag is a path that is not valid UTF-8.
    pub fn given(&self) -> Result<Vec<String>, UsageError> {
        given(self)
    }

    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A path that is not valid UTF-8 or cannot be made absolute, or a flag that has no effect
    /// because a tokeniser comes from a file.
    pub fn apply(&self, tokenizer: &mut TokenizerConfig) -> Result<(), UsageError> {
        set(&mut tokenizer.kind, self.tokenizer);
        let sizes = &mut tokenizer.vocab_size;
        let or_fewer = &mut tokenizer.or_fewer;
        for (size, or_fewer, given) in [
            (
                &mut sizes.source,
                &mut or_fewer.source,
                self.source_vocab_size,
            ),
            (
                &mut sizes.target,
                &mut or_fewer.target,
                self.target_vocab_size,
            ),
        ] {
            if let Some(given) = given.or(self.vocab_size) {
                *size = given;
                *or_fewer = false;
            }
        }
        tokenizer.joint |= self.joint_vocabulary;
        tokenizer.lower_case |= self.lower_case;
        tokenizer.normalization = self.normalize.or(tokenizer.normalization);
        for (file, given) in [
            (&mut tokenizer.source_file, &self.source_tokenizer_file),
            (&mut tokenizer.target_file, &self.target_tokenizer_file),
        ] {
            if let Some(path) = given.as_ref().or(self.tokenizer_file.as_ref()) {
                *file = Some(absolute(path)?);
            }
        }
        let trains_none = tokenizer.source_file.is_some() && tokenizer.target_file.is_some();
        let for_training = ["--tokenizer", "--vocab-size", "--lower-case", "--normalize"];
        let given = self.given()?;
        if let Some(flag) = for_training
            .iter()
            .find(|flag| given.iter().any(|one| one == *flag))
            && trains_none
        {
            let expected =
                "is for tokenisers that are trained, but both sides have one from a file";
            return Err(UsageError::new(*flag, "", expected));
        }
        for (flag, size, file) in [
            (
                "--source-vocab-size",
                self.source_vocab_size,
                &tokenizer.source_file,
            ),
            (
                "--target-vocab-size",
                self.target_vocab_size,
                &tokenizer.target_file,
            ),
        ] {
            let expected = "is for a tokeniser that is trained, but this side has one from a file";
            reject(flag, size.filter(|_| file.is_some()), expected)?;
        }
        Ok(())
    }
}
