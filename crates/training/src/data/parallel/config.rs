//! Settings of a data set that is read from parallel corpora.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::corpus::{Corpus, ReadOptions, TrainSettings, ValidSettings};
use super::pretrained::{PretrainedConfig, PretrainedSettings};
use super::tokenizer::config::TokenizerConfig;
use crate::data::sides::Sides;
use crate::error::{Subject, UsageError, check_bounds};
use crate::setting::{
    Section, choice, choices, computed, group, group_of, number, settings, switch, text, whole,
};

choices! {
    /// What happens to training pairs in which the source or the target has too many tokens.
    pub enum Overlong {
        /// Skip such pairs.
        Drop = "drop",
        /// Truncate the longer sides.
        Cut = "cut",
    }
}

settings! {
    /// Settings of a [`ParallelDataset`](super::ParallelDataset).
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct TextConfig in "data." {
        /// Corpus of the training pairs.
        train: Corpus = Corpus::EMPTY, group_of(TrainSettings::SETTINGS);
        /// Corpus of the validation pairs. If it has no file, some pairs of `train` are held out
        /// instead.
        valid: Corpus = Corpus::EMPTY, group_of(ValidSettings::SETTINGS);
        /// Share of the training pairs that is held out if there is no validation corpus: at least
        /// one pair, at most 2,000 different ones.
        valid_share: f64 = 0.01, number("above 0 and at most 0.5", |x| x > 0.0 && x <= 0.5)
            .rare_flag("--valid-share", "SHARE");
        /// Replace invalid UTF-8 instead of rejecting it.
        lossy: bool = false, switch();
        /// Settings of the tokenisers of sources and targets.
        tokenizer: TokenizerConfig = TokenizerConfig::DEFAULT, group::<TokenizerConfig>();
        /// The pretrained model whose tokeniser is used; `None` for the tokenisers of `tokenizer`.
        pretrained: Option<PretrainedConfig> = None, group_of(PretrainedSettings::SETTINGS);
        /// Maximum tokens of a source and of a target.
        max_length: Sides<usize> = Sides { source: 256, target: 256 }, whole(1, 100_000).flag("--max-length", "N");
        /// Treatment of training pairs with a side longer than its maximum.
        overlong: Overlong = Overlong::Drop, choice(Overlong::choices).rare_flag("--overlong", "WHAT");
        /// Maximum tokens of each side of a batch of several pairs, padding included (text only).
        batch_tokens: usize = 0, whole(1, 100_000_000).flag("--batch-tokens", "N");
        /// Folder of trained tokenisers and tokenised corpora; without it, `cache` beside the run's
        /// folder.
        cache: Option<PathBuf> = None, text().rare_flag("--cache", "FOLDER").local().may_change();
        /// SHA-256 of the tokeniser of sources and of the tokeniser of targets, in hexadecimal digits;
        /// `None` before the tokenisers are trained or read.
        tokenizer_sha256: Option<[String; 2]> = None, computed();
        /// Hash of the training corpus and hash of the validation pairs; `None` before the corpora are
        /// read.
        data: Option<[String; 2]> = None, computed();
    }
}

impl TextConfig {
    /// Returns settings without files, for byte-level BPE and for sources and targets of at most
    /// 256 tokens. `vocab_size` is the maximum size of each vocabulary.
    pub fn new(vocab_size: usize, batch_tokens: usize) -> Self {
        Self {
            tokenizer: TokenizerConfig::new(vocab_size),
            batch_tokens,
            ..Self::DEFAULT
        }
    }

    /// Returns the options for reading the training corpus.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            lossy: self.lossy,
            truncates: self.overlong == Overlong::Cut,
            keeps_empty: false,
        }
    }

    /// Returns the options for reading the validation corpus, of which no long pair is skipped.
    pub(super) fn validation_options(&self) -> ReadOptions {
        ReadOptions {
            truncates: true,
            ..self.read_options()
        }
    }

    /// Returns the paths of the corpora's files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.train.files().chain(self.valid.files())
    }

    /// Returns the paths of everything that a run reads: corpora, and what tokenisers are read from.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        let tokenizers = self.tokenizer_files().into_iter().flatten();
        self.files().chain(tokenizers.map(PathBuf::as_path))
    }

    /// Returns what the tokenisers of sources and of targets are read from: a file, or the folder of the
    /// pretrained model; `None` for one that is trained.
    pub(super) fn tokenizer_files(&self) -> [Option<&PathBuf>; 2] {
        let folder = self.pretrained.as_ref().map(|model| &model.folder);
        let (source, target) = (&self.tokenizer.source_file, &self.tokenizer.target_file);
        [source, target].map(|file| file.as_ref().or(folder))
    }

    /// Returns whether there is a training corpus, which an imported run does not have.
    pub fn has_corpora(&self) -> bool {
        !self.train.source.as_os_str().is_empty()
    }

    /// Returns whether the validation pairs have files of their own.
    pub fn has_validation_corpus(&self) -> bool {
        !self.valid.source.as_os_str().is_empty()
    }

    /// Returns the corpus that the validation pairs are read from.
    pub fn validated_corpus(&self) -> &Corpus {
        if self.has_validation_corpus() {
            &self.valid
        } else {
            &self.train
        }
    }

    /// If an error is about a corpus or a tokeniser file of these settings, replaces its subject by
    /// the setting that names the file, unless several do. Returns any other error unchanged.
    pub fn name_file(&self, mut error: anyhow::Error) -> anyhow::Error {
        let Some(usage) = error.downcast_mut::<UsageError>() else {
            return error;
        };
        let tokenizer = &self.tokenizer;
        let files = [
            (Some(&self.train.source), TrainSettings::source),
            (self.train.target.as_ref(), TrainSettings::target),
            (Some(&self.valid.source), ValidSettings::source),
            (self.valid.target.as_ref(), ValidSettings::target),
            (tokenizer.source_file.as_ref(), TokenizerConfig::source_file),
            (tokenizer.target_file.as_ref(), TokenizerConfig::target_file),
        ];
        let is_file = |path: &PathBuf| path.display().to_string() == usage.value;
        let is_named = |(path, _): &(Option<_>, _)| path.is_some_and(is_file);
        let mut named = files.into_iter().filter(is_named);
        let is = |name: &str| usage.subject == Subject::Other(name.into());
        // A file of two corpora may be wrong in one of them.
        if let Some((_, setting)) = named.next()
            && (is("tokeniser") || is("corpus") && named.next().is_none())
        {
            usage.subject = Subject::Setting(setting);
        }
        error
    }

    /// Returns whether the source or the target of a pair, with these numbers of tokens, has more
    /// than its `max_length`.
    pub(super) fn is_overlong(&self, [source, target]: [usize; 2]) -> bool {
        source > self.max_length.source || target > self.max_length.target
    }

    /// Makes the paths of corpora, tokeniser files and caches absolute, so that a run can be
    /// resumed from any folder. Leaves out the names of fields where a corpus has no fields.
    ///
    /// # Errors
    ///
    /// If a path has no absolute form.
    pub fn resolve_files(&mut self) -> Result<(), UsageError> {
        for corpus in [&mut self.train, &mut self.valid] {
            corpus.fields = corpus.fields.take().filter(|_| corpus.has_fields());
        }
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

    /// Rejects a file of targets without its file of sources.
    ///
    /// # Errors
    ///
    /// The first such file.
    pub fn check_targets(&self) -> Result<(), UsageError> {
        for (corpus, source, target) in [
            (&self.train, TrainSettings::source, TrainSettings::target),
            (&self.valid, ValidSettings::source, ValidSettings::target),
        ] {
            if let (Some(path), None) = (&corpus.target, corpus.files().next()) {
                let expected = format!("needs {}", source.name());
                return Err(UsageError::setting(target, path.display(), expected));
            }
        }
        Ok(())
    }

    /// Checks all settings that can be checked without reading a file.
    ///
    /// # Errors
    ///
    /// If a number is out of its bounds, the vocabulary sizes of a joint tokeniser differ, a
    /// pretrained model is given another tokeniser, or `train` has no file.
    pub fn check(&self) -> Result<(), UsageError> {
        check_bounds(self)?;
        if let Some(model) = &self.pretrained {
            // `max_tokens` counts the start token and the end symbol of a target, but `max_length`
            // does not.
            let most = model.max_tokens.saturating_sub(2);
            let Sides { source, target } = self.max_length;
            let expected =
                format!("must be at most {most}: the model has positions for two tokens more");
            let is_valid = source.max(target) <= most;
            UsageError::check(is_valid, Self::max_length, self.max_length, expected)?;
            for (file, setting) in [
                (&self.tokenizer.source_file, TokenizerConfig::source_file),
                (&self.tokenizer.target_file, TokenizerConfig::target_file),
            ] {
                if let Some(file) = file {
                    let expected = "must be left out: the pretrained model has its tokeniser";
                    return Err(UsageError::setting(setting, file.display(), expected));
                }
            }
        }
        let (own, setting) = (&self.tokenizer, TokenizerConfig::vocab_size);
        let is_valid = !own.joint || own.vocab_size.source == own.vocab_size.target;
        let expected = "must be one size, since both sides share a vocabulary";
        UsageError::check(is_valid, setting, own.vocab_size, expected)?;
        let is_valid = !own.joint || own.source_file == own.target_file;
        let expected = "needs the same file for both sides, or none";
        UsageError::check(is_valid, TokenizerConfig::joint, true, expected)?;
        if let Some(fields) = &self.train.fields {
            let is_valid = self.train.has_fields() || self.valid.has_fields();
            let expected = "needs a file of JSON Lines, whose name ends with .jsonl";
            UsageError::check(is_valid, TrainSettings::fields, fields.join(","), expected)?;
        }
        self.check_targets()?;
        let expected = "must name the texts to train on";
        UsageError::check(self.has_corpora(), TrainSettings::source, "", expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    #[test]
    fn wrong_settings_are_named_by_their_paths() {
        let mut config = TextConfig::new(100, 100);
        let error = |config: &TextConfig| config.check().unwrap_err().to_string();
        let expected = "data.train.source: must name the texts to train on";
        assert_eq!(error(&config), expected);
        config.train.source = "a".into();
        assert_eq!(config.check(), Ok(()));
        config.valid_share = 0.6;
        let expected = "data.valid_share 0.6: must be above 0 and at most 0.5";
        assert_eq!(error(&config), expected);
        config.valid_share = 0.5;
        config.tokenizer.vocab_size = Sides {
            source: 500,
            target: 4,
        };
        let expected = "data.tokenizer.vocab_size 500,4: must be a whole number of at least 5 and at most 10000000";
        assert_eq!(error(&config), expected);
        config.tokenizer.vocab_size.target = 600;
        assert_eq!(config.check(), Ok(()));
        config.tokenizer.joint = true;
        assert_has(&error(&config), &["share a vocabulary"]);
        config.max_length.target = 0;
        let expected = "data.max_length 256,0: must be a whole number of at least 1";
        assert_has(&error(&config), &[expected]);
    }

    #[test]
    fn files_are_named_by_their_settings() {
        let mut config = TextConfig::new(100, 100);
        config.train.source = "a".into();
        config.tokenizer.target_file = Some("b".into());
        let named = |subject: &str, value: &str| {
            config
                .name_file(UsageError::new(subject, value, "x").into())
                .to_string()
        };
        assert_eq!(named("corpus", "a"), "data.train.source a: x");
        assert_eq!(named("tokeniser", "b"), "data.tokenizer.target_file b: x");
        assert_eq!(named("corpus", "c"), "corpus c: x");
        assert_eq!(named("line 1", "a"), "line 1 a: x");
    }
}
