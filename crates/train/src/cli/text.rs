//! Flags of `fit --task text`: corpora, tokenisers, batches.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{set, whole_number};
use crate::error::UsageError;
use crate::text::{Corpus, Normalization, Overlong, TextConfig, TokenizerKind};

/// Flags of `--task text` alone.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of --task text")]
pub struct TextArgs {
    /// Texts to translate, one a line; these and the other corpora may be gzip
    #[arg(long, value_name = "FILE", requires = "train_target")]
    pub train_source: Option<PathBuf>,
    /// Their translations, line by line
    #[arg(long, value_name = "FILE", requires = "train_source")]
    pub train_target: Option<PathBuf>,
    /// Both in one file: lines `SOURCE<TAB>TARGET`, or JSON Lines if the name ends with .jsonl
    #[arg(long, value_name = "FILE", conflicts_with_all = ["train_source", "train_target"])]
    pub train: Option<PathBuf>,
    /// Texts to validate with, as --train-source
    #[arg(long, value_name = "FILE", requires = "valid_target")]
    pub valid_source: Option<PathBuf>,
    /// Their translations, line by line
    #[arg(long, value_name = "FILE", requires = "valid_source")]
    pub valid_target: Option<PathBuf>,
    /// Both in one file, as --train
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target"])]
    pub valid: Option<PathBuf>,
    /// Fields of source and target in JSON Lines, such as translation.de,translation.en [default:
    /// source,target]
    #[arg(long, value_name = "SOURCE,TARGET", value_parser = fields)]
    pub fields: Option<Fields>,
    /// Replace bytes that are no UTF-8, instead of refusing them
    #[arg(long)]
    pub lossy: bool,
    /// What tokens are [default: bpe]
    #[arg(long, value_name = "KIND")]
    pub tokenizer: Option<TokenizerKind>,
    /// Tokens of each vocabulary [default: 6000, or as many as there are; tiny: 2000; base: 16000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub vocab_size: Option<usize>,
    /// One vocabulary for sources and targets
    #[arg(long)]
    pub joint_vocabulary: bool,
    /// Make all letters small
    #[arg(long)]
    pub lower_case: bool,
    /// Bring texts into a Unicode normal form first [default: none]
    #[arg(long, value_name = "FORM")]
    pub normalize: Option<Normalization>,
    /// A tokenizer.json for both sides, instead of a trained one
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "source_tokenizer_file", "target_tokenizer_file", "tokenizer", "vocab_size",
        "joint_vocabulary", "lower_case", "normalize",
    ])]
    pub tokenizer_file: Option<PathBuf>,
    /// A tokenizer.json for sources
    #[arg(long, value_name = "FILE", conflicts_with = "joint_vocabulary")]
    pub source_tokenizer_file: Option<PathBuf>,
    /// A tokenizer.json for targets
    #[arg(long, value_name = "FILE", conflicts_with = "joint_vocabulary")]
    pub target_tokenizer_file: Option<PathBuf>,
    /// What is done with pairs that have a side longer than --max-length [default: drop]
    #[arg(long, value_name = "WHAT")]
    pub overlong: Option<Overlong>,
    /// Tokens a side of a batch, padding included [default: 2048; tiny: 512; base: 4096]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub batch_tokens: Option<usize>,
    /// Times that every pair is learned from [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number, conflicts_with = "steps")]
    pub epochs: Option<usize>,
    /// Folder for tokenised corpora [default: `cache` beside the run's folder]
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
}

/// Names of two fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields(pub [String; 2]);

pub(super) fn fields(text: &str) -> Result<Fields, String> {
    match text.split_once(',') {
        Some((source, target))
            if !source.is_empty() && !target.is_empty() && !target.contains(',') =>
        {
            Ok(Fields([source.into(), target.into()]))
        }
        _ => Err("must be two names with a comma between them: SOURCE,TARGET".into()),
    }
}

impl TextArgs {
    /// The first of these flags that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        let Self {
            train_source,
            train_target,
            train,
            valid_source,
            valid_target,
            valid,
            fields,
            lossy,
            tokenizer,
            vocab_size,
            joint_vocabulary,
            lower_case,
            normalize,
            tokenizer_file,
            source_tokenizer_file,
            target_tokenizer_file,
            overlong,
            batch_tokens,
            epochs,
            cache,
        } = self;
        let given = [
            ("--train-source", train_source.is_some()),
            ("--train-target", train_target.is_some()),
            ("--train", train.is_some()),
            ("--valid-source", valid_source.is_some()),
            ("--valid-target", valid_target.is_some()),
            ("--valid", valid.is_some()),
            ("--fields", fields.is_some()),
            ("--lossy", *lossy),
            ("--tokenizer", tokenizer.is_some()),
            ("--vocab-size", vocab_size.is_some()),
            ("--joint-vocabulary", *joint_vocabulary),
            ("--lower-case", *lower_case),
            ("--normalize", normalize.is_some()),
            ("--tokenizer-file", tokenizer_file.is_some()),
            ("--source-tokenizer-file", source_tokenizer_file.is_some()),
            ("--target-tokenizer-file", target_tokenizer_file.is_some()),
            ("--overlong", overlong.is_some()),
            ("--batch-tokens", batch_tokens.is_some()),
            ("--epochs", epochs.is_some()),
            ("--cache", cache.is_some()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }

    /// Changes the settings of a text task.
    ///
    /// # Errors
    ///
    /// A path that has no absolute form, or fields of a file that has none.
    pub fn apply(&self, config: &mut TextConfig) -> Result<(), UsageError> {
        let train = [&self.train_source, &self.train_target, &self.train];
        let valid = [&self.valid_source, &self.valid_target, &self.valid];
        for (corpus, files) in [(&mut config.train, train), (&mut config.valid, valid)] {
            if let Some(files) = self.corpus(files)? {
                *corpus = files;
            } else if let Some(Fields(fields)) = &self.fields {
                corpus.fields = Some(fields.clone());
            }
        }
        let has_fields = [&config.train, &config.valid]
            .into_iter()
            .any(|corpus| corpus.target.is_none() && crate::text::is_json_lines(&corpus.source));
        if let (Some(Fields(fields)), false) = (&self.fields, has_fields) {
            let expected = "needs a file of JSON Lines, whose name ends with .jsonl";
            return Err(UsageError::new("--fields", fields.join(","), expected));
        }
        config.lossy |= self.lossy;
        let tokenizer = &mut config.tokenizer;
        set(&mut tokenizer.kind, self.tokenizer);
        if let Some(size) = self.vocab_size {
            tokenizer.vocab_size = size;
            tokenizer.or_fewer = false;
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
        let for_training = [
            ("--tokenizer", self.tokenizer.is_some()),
            ("--vocab-size", self.vocab_size.is_some()),
            ("--lower-case", self.lower_case),
            ("--normalize", self.normalize.is_some()),
        ];
        if let Some((flag, _)) = for_training.iter().find(|(_, is_given)| *is_given)
            && trains_none
        {
            let expected = "is for tokenisers that are trained, but both sides have theirs";
            return Err(UsageError::new(*flag, "", expected));
        }
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
            fields: self.fields.clone().map(|Fields(fields)| fields),
        }))
    }
}

/// A run goes on from wherever somebody stands.
fn absolute(path: &Path) -> Result<PathBuf, UsageError> {
    std::path::absolute(path)
        .map_err(|error| UsageError::new("file", path.display(), format!("has no path ({error})")))
}
