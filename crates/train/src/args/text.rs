//! Flags of `--task text`: corpora, tokenisers, batches.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use training::data::parallel::{
    Corpus, Normalization, Overlong, TextConfig, TokenizerKind, is_json_lines,
};
use training::error::UsageError;

use super::check::{reject, set};
use super::parse::{fields, listed, whole_number};
use super::values::{NORMALIZATION, OVERLONG, TOKENIZER};

/// Flags of `--task text`.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "Options of --task text")]
pub struct TextArgs {
    /// Source texts to train on, one per line; all corpora may be compressed by gzip
    #[arg(long, value_name = "FILE", requires = "train_target")]
    pub train_source: Option<PathBuf>,
    /// Translations of --train-source, line by line
    #[arg(long, value_name = "FILE", requires = "train_source")]
    pub train_target: Option<PathBuf>,
    /// Pairs to train on in one file: lines `SOURCE<TAB>TARGET`, or JSON Lines if its name ends with
    /// .jsonl
    #[arg(long, value_name = "FILE", conflicts_with_all = ["train_source", "train_target"])]
    pub train: Option<PathBuf>,
    /// Source texts of the validation split, as --train-source
    #[arg(long, value_name = "FILE", requires = "valid_target")]
    pub valid_source: Option<PathBuf>,
    /// Translations of --valid-source, line by line
    #[arg(long, value_name = "FILE", requires = "valid_source")]
    pub valid_target: Option<PathBuf>,
    /// Pairs of the validation split in one file, as --train
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target"])]
    pub valid: Option<PathBuf>,
    /// Fields of source and target in JSON Lines, such as translation.de,translation.en [default:
    /// source,target]
    #[arg(long, value_name = "SOURCE,TARGET", value_parser = fields)]
    pub fields: Option<[String; 2]>,
    /// Replace invalid UTF-8 instead of rejecting it
    #[arg(long)]
    pub lossy: bool,
    /// Kind of tokens [default: bpe]
    #[arg(long, value_name = "KIND", value_parser = listed::<TokenizerKind>(TOKENIZER))]
    pub tokenizer: Option<TokenizerKind>,
    /// Tokens of each vocabulary [default: 6000, or fewer if the corpus has fewer; tiny: 2000; base:
    /// 16000]
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
    ])]
    pub tokenizer_file: Option<PathBuf>,
    /// A tokenizer.json for sources
    #[arg(long, value_name = "FILE", conflicts_with = "joint_vocabulary")]
    pub source_tokenizer_file: Option<PathBuf>,
    /// A tokenizer.json for targets
    #[arg(long, value_name = "FILE", conflicts_with = "joint_vocabulary")]
    pub target_tokenizer_file: Option<PathBuf>,
    /// Maximum tokens of a source [default: --max-length]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub source_max_length: Option<usize>,
    /// Maximum tokens of a target [default: --max-length]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub target_max_length: Option<usize>,
    /// Treatment of pairs with a side longer than --max-length [default: drop]
    #[arg(long, value_name = "WHAT", value_parser = listed::<Overlong>(OVERLONG))]
    pub overlong: Option<Overlong>,
    /// Maximum tokens of each side of a batch, padding included [default: 2048; tiny: 512; base: 4096]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub batch_tokens: Option<usize>,
    /// Passes over the training data [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>, conflicts_with = "steps")]
    pub epochs: Option<usize>,
    /// Folder for tokenised corpora [default: `cache` beside the run's folder]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}

impl TextArgs {
    /// Returns the flags that are given.
    ///
    /// # Errors
    ///
    /// A path that is not valid UTF-8.
    pub fn given(&self) -> Result<Vec<String>, UsageError> {
        let flags = serde_json::to_value(self)
            .map_err(|error| UsageError::new("file", "", error.to_string()))?;
        let given = flags.as_object().into_iter().flatten();
        let given = given.filter(|(_, value)| !value.is_null() && **value != false);
        Ok(given.map(|(name, _)| format!("--{name}")).collect())
    }

    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A path that cannot be made absolute, or `--fields` for a file that is not JSON Lines.
    pub fn apply(&self, config: &mut TextConfig) -> Result<(), UsageError> {
        let train = [&self.train_source, &self.train_target, &self.train];
        let valid = [&self.valid_source, &self.valid_target, &self.valid];
        for (corpus, files) in [(&mut config.train, train), (&mut config.valid, valid)] {
            if let Some(files) = self.corpus(files)? {
                *corpus = files;
            } else if let Some(fields) = &self.fields {
                corpus.fields = Some(fields.clone());
            }
        }
        let has_fields = |corpus: &Corpus| corpus.target.is_none() && is_json_lines(&corpus.source);
        if let Some(fields) = &self.fields
            && !has_fields(&config.train)
            && !has_fields(&config.valid)
        {
            let expected = "needs a file of JSON Lines, whose name ends with .jsonl";
            return Err(UsageError::new("--fields", fields.join(","), expected));
        }
        config.lossy |= self.lossy;
        let tokenizer = &mut config.tokenizer;
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
        set(&mut config.max_length.source, self.source_max_length);
        set(&mut config.max_length.target, self.target_max_length);
        set(&mut config.overlong, self.overlong);
        set(&mut config.batch_tokens, self.batch_tokens);
        if let Some(path) = &self.cache {
            config.cache = Some(absolute(path)?);
        }
        Ok(())
    }

    fn corpus(&self, files: [&Option<PathBuf>; 3]) -> Result<Option<Corpus>, UsageError> {
        let [source, target, both] = files;
        let Some(source) = source.as_ref().or(both.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(Corpus {
            source: absolute(source)?,
            target: target.as_deref().map(absolute).transpose()?,
            fields: self.fields.clone(),
        }))
    }
}

/// Makes a path absolute, so that a run can be resumed from any folder.
fn absolute(path: &Path) -> Result<PathBuf, UsageError> {
    let wrong = |error| format!("has no absolute path ({error})");
    std::path::absolute(path).map_err(|error| UsageError::new("file", path.display(), wrong(error)))
}
