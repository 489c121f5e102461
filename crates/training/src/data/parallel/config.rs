//! Settings of a data set that is read from parallel corpora.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::corpus::{Corpus, ReadOptions};
use super::pretrained::PretrainedConfig;
use super::tokenizer::config::TokenizerConfig;
use crate::data::bounds;
use crate::data::sides::Sides;
use crate::error::{Subject, UsageError};

/// What happens to pairs in which the source or the target has too many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlong {
    /// The whole pair is skipped.
    #[default]
    Drop,
    /// A source or target with too many tokens is truncated, and the pair is kept.
    Cut,
}

impl Overlong {
    /// Returns what happens to pairs with too many tokens, as the word that messages use: `skipped`
    /// or `truncated`.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Drop => "skipped",
            Self::Cut => "truncated",
        }
    }
}

/// Settings of a [`ParallelDataset`](super::ParallelDataset).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextConfig {
    /// Corpus of the training pairs.
    pub train: Corpus,
    /// Corpus of the validation pairs. If it has no file, some pairs of `train` are held out
    /// instead.
    pub valid: Corpus,
    /// Fraction of the training pairs that is held out if `valid` has no file. At least one pair
    /// and at most 2,000 different pairs are held out.
    pub valid_share: f64,
    /// Whether invalid UTF-8 is replaced; otherwise it is an error.
    pub lossy: bool,
    /// Settings of the tokenisers of sources and targets.
    pub tokenizer: TokenizerConfig,
    /// The pretrained model whose tokeniser is used; `None` for the tokenisers of `tokenizer`.
    #[serde(default)]
    pub pretrained: Option<PretrainedConfig>,
    /// Maximum number of tokens of a source and of a target, without begin and end symbol.
    pub max_length: Sides<usize>,
    /// What happens to pairs in which the source or the target has more tokens than its
    /// `max_length`.
    pub overlong: Overlong,
    /// Maximum number of source tokens in a batch, padding included, and also the maximum number
    /// of target tokens. A pair with more tokens is a batch of its own.
    pub batch_tokens: usize,
    /// Folder of cached tokenisers and tokenised corpora; `None` for the folder `cache` beside the
    /// run's folder.
    pub cache: Option<PathBuf>,
    /// SHA-256 of the tokeniser of sources and of the tokeniser of targets, in hexadecimal digits;
    /// `None` before the tokenisers are trained or read.
    pub tokenizer_sha256: Option<[String; 2]>,
    /// Hash of the training corpus and hash of the validation pairs; `None` before the corpora are
    /// read.
    pub data: Option<[String; 2]>,
}

impl TextConfig {
    /// Returns settings without files, for byte-level BPE and for sources and targets of at most
    /// 256 tokens. `vocab_size` is the maximum size of each vocabulary.
    pub fn new(vocab_size: usize, batch_tokens: usize) -> Self {
        Self {
            tokenizer: TokenizerConfig::new(vocab_size),
            valid_share: 0.01,
            max_length: Sides::both(256),
            batch_tokens,
            ..Self::default()
        }
    }

    /// Returns the options for reading the corpora.
    ///
    /// `max_bytes` is 64 bytes for each token of the larger `max_length`, but at least 16 KiB.
    /// Tokens of real texts have far fewer than 64 bytes on average.
    pub fn read_options(&self) -> ReadOptions {
        let [source, target] = self.max_length.each();
        ReadOptions {
            lossy: self.lossy,
            max_bytes: (64 * source.max(target)).max(1 << 14),
        }
    }

    /// Returns whether the validation pairs have files of their own.
    pub fn has_validation_corpus(&self) -> bool {
        !self.valid.source.as_os_str().is_empty()
    }

    /// If an error is about a corpus or a tokeniser file of these settings, replaces its subject by
    /// the setting that names the file. Returns any other error unchanged.
    pub fn name_file(&self, mut error: UsageError) -> UsageError {
        let files = [
            (Some(&self.train.source), "data.train.source"),
            (self.train.target.as_ref(), "data.train.target"),
            (Some(&self.valid.source), "data.valid.source"),
            (self.valid.target.as_ref(), "data.valid.target"),
            (
                self.tokenizer.source_file.as_ref(),
                "data.tokenizer.source_file",
            ),
            (
                self.tokenizer.target_file.as_ref(),
                "data.tokenizer.target_file",
            ),
        ];
        let is_file = |path: &PathBuf| path.display().to_string() == error.value;
        let mut files = files.into_iter();
        let is_of_file = matches!(&error.subject, Subject::Other(name) if ["corpus", "tokeniser"].contains(&name.as_str()));
        if let Some((_, setting)) = files.find(|(path, _)| is_of_file && path.is_some_and(is_file))
        {
            error.subject = Subject::Setting(setting.into());
        }
        error
    }

    /// Returns whether the source or the target of a pair has more tokens than its `max_length`.
    /// `ids` has the token ids of the source, then those of the target.
    pub(super) fn is_overlong(&self, ids: &[Vec<u32>; 2]) -> bool {
        let limits = self.max_length.each();
        ids.iter().zip(limits).any(|(ids, most)| ids.len() > most)
    }

    /// Makes the paths of corpora, tokeniser files and caches absolute, so that a run can be
    /// resumed from any folder.
    ///
    /// # Errors
    ///
    /// If a path has no absolute form.
    pub fn make_paths_absolute(&mut self) -> Result<(), UsageError> {
        let paths = [
            Some(&mut self.train.source),
            self.train.target.as_mut(),
            Some(&mut self.valid.source),
            self.valid.target.as_mut(),
            self.tokenizer.source_file.as_mut(),
            self.tokenizer.target_file.as_mut(),
            self.cache.as_mut(),
            self.pretrained.as_mut().map(|model| &mut model.folder),
        ];
        for path in paths.into_iter().flatten() {
            if !path.as_os_str().is_empty() {
                *path = std::path::absolute(&*path).map_err(|error| {
                    let expected = format!("has no absolute path ({error})");
                    UsageError::new("file", path.display(), expected)
                })?;
            }
        }
        Ok(())
    }

    /// Checks all settings that can be checked without reading a file.
    ///
    /// # Errors
    ///
    /// If a number is out of its bounds, the vocabulary sizes of a joint tokeniser differ, or
    /// `train` has no file.
    pub fn check(&self) -> Result<(), UsageError> {
        for (setting, length) in self.max_length.with_paths("max_length") {
            bounds::check(&setting, length, 1..=100_000)?;
        }
        bounds::check("batch_tokens", self.batch_tokens, 1..=100_000_000)?;
        if let Some(model) = &self.pretrained {
            // `max_tokens` counts the start token and the end symbol of a target, but `max_length`
            // does not.
            let most = model.max_tokens.saturating_sub(2);
            for (setting, length) in self.max_length.with_paths("data.max_length") {
                let expected =
                    format!("must be at most {most}: the model has positions for two tokens more");
                UsageError::check(length <= most, &setting, length, expected)?;
            }
        }
        let vocab_size = self.tokenizer.vocab_size;
        for (setting, size) in vocab_size.with_paths("tokenizer.vocab_size") {
            bounds::check(&setting, size, 5..=10_000_000)?;
        }
        if self.tokenizer.joint && vocab_size.source != vocab_size.target {
            let path = "data.tokenizer.vocab_size.target";
            let expected = format!("must be {{}} ({}), because of {{}}", vocab_size.source);
            let error = UsageError::setting(path, vocab_size.target, expected);
            let mentioned = ["data.tokenizer.vocab_size.source", "data.tokenizer.joint"];
            return Err(error.naming(mentioned));
        }
        let (share, path) = (self.valid_share, "data.valid_share");
        let expected = "must be above 0 and at most 0.5";
        UsageError::check(share > 0.0 && share <= 0.5, path, share, expected)?;
        if self.train.source.as_os_str().is_empty() {
            let error = UsageError::setting("data.task", "text", "needs {}");
            return Err(error.naming(["data.train"]));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_named_by_their_paths() {
        let mut config = TextConfig::new(100, 100);
        let error = |config: &TextConfig| config.check().unwrap_err().to_string();
        assert_eq!(error(&config), "data.task text: needs data.train");
        config.train.source = "a".into();
        assert_eq!(config.check(), Ok(()));
        config.valid_share = 0.6;
        let expected = "data.valid_share 0.6: must be above 0 and at most 0.5";
        assert_eq!(error(&config), expected);
        config.valid_share = 0.5;
        config.tokenizer.vocab_size = Sides::both(4);
        let expected = "data.tokenizer.vocab_size 4: must be at least 5 and at most 10000000";
        assert_eq!(error(&config), expected);
        config.tokenizer.vocab_size = Sides {
            source: 500,
            target: 4,
        };
        let expected =
            "data.tokenizer.vocab_size.target 4: must be at least 5 and at most 10000000";
        assert_eq!(error(&config), expected);
        config.tokenizer.vocab_size.target = 600;
        assert_eq!(config.check(), Ok(()));
        config.tokenizer.joint = true;
        let expected = "data.tokenizer.vocab_size.target 600: must be \
                        data.tokenizer.vocab_size.source (500), because of data.tokenizer.joint";
        assert_eq!(error(&config), expected);
        config.max_length.target = 0;
        let expected = "data.max_length.target 0: must be at least 1 and at most 100000";
        assert_eq!(error(&config), expected);
    }

    #[test]
    fn files_are_named_by_their_settings() {
        let mut config = TextConfig::new(100, 100);
        config.train.source = "a".into();
        config.tokenizer.target_file = Some("b".into());
        let named = |subject: &str, value: &str| {
            config
                .name_file(UsageError::new(subject, value, "x"))
                .to_string()
        };
        assert_eq!(named("corpus", "a"), "data.train.source a: x");
        assert_eq!(named("tokeniser", "b"), "data.tokenizer.target_file b: x");
        assert_eq!(named("corpus", "c"), "corpus c: x");
        assert_eq!(named("line 1", "a"), "line 1 a: x");
    }

    #[test]
    fn names_are_those_of_configuration_files() {
        for (overlong, name) in [(Overlong::Drop, "drop"), (Overlong::Cut, "cut")] {
            assert_eq!(serde_json::to_value(overlong).unwrap(), name);
        }
    }
}
