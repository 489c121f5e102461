//! Flags of `fit` about the corpora of texts.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use training::data::parallel::{Corpus, Overlong, TextConfig, is_json_lines};
use training::error::UsageError;

use crate::args::check::set;
use crate::args::parse::{absolute, fields, given, listed, number, recorded_path, whole_number};
use crate::args::values::OVERLONG;

/// Flags of `fit` about the corpora of texts.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TextArgs {
    /// Source texts to train on, one per line; all corpora may be compressed by gzip
    #[arg(long, value_name = "FILE", requires = "train_target", value_parser = recorded_path())]
    pub train_source: Option<PathBuf>,
    /// Translations of --train-source, line by line
    #[arg(long, value_name = "FILE", requires = "train_source", value_parser = recorded_path())]
    pub train_target: Option<PathBuf>,
    /// Pairs to train on in one file: JSON Lines if its name ends with .jsonl, .ndjson or .json,
    /// otherwise lines `SOURCE<TAB>TARGET`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["train_source", "train_target"], value_parser = recorded_path())]
    pub train: Option<PathBuf>,
    /// Source texts of the validation split, in the format of --train-source
    #[arg(long, value_name = "FILE", requires = "valid_target", value_parser = recorded_path())]
    pub valid_source: Option<PathBuf>,
    /// Translations of --valid-source, line by line
    #[arg(long, value_name = "FILE", requires = "valid_source", value_parser = recorded_path())]
    pub valid_target: Option<PathBuf>,
    /// Pairs of the validation split in one file, in the format of --train
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target"], value_parser = recorded_path())]
    pub valid: Option<PathBuf>,
    /// Share of the training pairs that is held out for validation if no validation files are
    /// given: at least one pair, at most 2,000 different ones [default: 0.01]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, conflicts_with_all = ["valid_source", "valid"], value_parser = number::<f64>("a share above 0 and at most 0.5, such as 0.01"))]
    pub valid_share: Option<f64>,
    /// Fields of source and target in JSON Lines, such as translation.de,translation.en [default:
    /// source,target]
    #[arg(long, value_name = "SOURCE,TARGET", value_parser = fields)]
    pub fields: Option<[String; 2]>,
    /// Replace invalid UTF-8 instead of rejecting it
    #[arg(long)]
    pub lossy: bool,
    /// Maximum tokens of a source [default: --max-length]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub source_max_length: Option<usize>,
    /// Maximum tokens of a target [default: --max-length]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub target_max_length: Option<usize>,
    /// Treatment of pairs with a side longer than its maximum [default: drop]
    #[arg(long, value_name = "WHAT", value_parser = listed::<Overlong>(OVERLONG))]
    pub overlong: Option<Overlong>,
    /// Folder for trained tokenisers and tokenised corpora [default: `cache` beside the run's
    /// folder]
    #[arg(long, value_name = "FOLDER", value_parser = recorded_path())]
    pub cache: Option<PathBuf>,
}

impl TextArgs {
    /// Returns the names of the flags that are given, such as `--lossy`.
    ///
    /// # Errors
    ///
    /// If the value of a flag is a path that is not valid UTF-8.
    pub fn given(&self) -> Result<Vec<String>, UsageError> {
        given(self)
    }

    /// Returns whether a training corpus is given.
    pub fn has_corpus(&self) -> bool {
        self.train_source.is_some() || self.train.is_some()
    }

    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A path that cannot be made absolute, or `--fields` without a file of JSON Lines.
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
        set(&mut config.valid_share, self.valid_share);
        config.lossy |= self.lossy;
        set(&mut config.max_length.source, self.source_max_length);
        set(&mut config.max_length.target, self.target_max_length);
        set(&mut config.overlong, self.overlong);
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
