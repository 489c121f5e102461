//! Real text: parallel corpora in, pairs of token ids out.
//!
//! [`Corpus`] reads pairs of texts from files, a [`Tokenizer`] makes ids of them, [`TokenCache`]
//! keeps these in files, [`BatchPlan`] says which pairs make a batch, and [`TextTask`] is what a
//! run learns from.

mod batches;
mod cache;
mod corpus;
mod prepare;
mod pseudo_language;
mod task;
mod tokenizer;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::UsageError;

pub use batches::{BatchPlan, Epoch};
pub use cache::TokenCache;
pub use corpus::{Corpus, Met, Pair, Pairs, Reading, is_json_lines};
pub use pseudo_language::{pseudo_corpus, pseudo_language};
pub use task::TextTask;
pub use tokenizer::{Normalization, Tokenizer, TokenizerConfig, TokenizerKind};

/// What is done with pairs of which a side has too many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Overlong {
    /// They are left out
    #[default]
    Drop,
    /// Their first tokens are taken
    Cut,
}

/// Settings of a [`TextTask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextConfig {
    /// What is learned from.
    pub train: Corpus,
    /// What is looked at during training.
    pub valid: Corpus,
    /// Whether bytes that are no UTF-8 are replaced.
    pub lossy: bool,
    /// Texts to ids.
    pub tokenizer: TokenizerConfig,
    /// Most tokens of a source or a target.
    pub max_length: usize,
    /// What is done with longer ones.
    pub overlong: Overlong,
    /// Most tokens a side of a batch, padding included.
    pub batch_tokens: usize,
    /// Where tokenised corpora are kept; none for `cache` beside the run's folder.
    pub cache: Option<PathBuf>,
    /// SHA-256 of the run's tokenisers, for source and target.
    pub tokenizer_sha256: Option<[String; 2]>,
    /// What tells the run's corpora from others, for training and validation.
    pub data: Option<[String; 2]>,
}

impl TextConfig {
    /// Of no files yet.
    pub fn new(vocab_size: usize, batch_tokens: usize) -> Self {
        Self {
            train: Corpus::default(),
            valid: Corpus::default(),
            lossy: false,
            tokenizer: TokenizerConfig::new(vocab_size),
            max_length: 256,
            overlong: Overlong::Drop,
            batch_tokens,
            cache: None,
            tokenizer_sha256: None,
            data: None,
        }
    }

    /// How its corpora are read: 64 bytes for each token are more than any text has.
    pub fn reading(&self) -> Reading {
        Reading {
            lossy: self.lossy,
            most_bytes: (64 * self.max_length).max(1 << 14),
        }
    }

    /// The same with whole paths, so that a run goes on from wherever somebody stands.
    ///
    /// # Errors
    ///
    /// A path that has none.
    pub fn with_whole_paths(mut self) -> Result<Self, UsageError> {
        let paths = [
            Some(&mut self.train.source),
            self.train.target.as_mut(),
            Some(&mut self.valid.source),
            self.valid.target.as_mut(),
            self.tokenizer.source_file.as_mut(),
            self.tokenizer.target_file.as_mut(),
            self.cache.as_mut(),
        ];
        for path in paths.into_iter().flatten() {
            if !path.as_os_str().is_empty() {
                *path = std::path::absolute(&*path).map_err(|error| {
                    let what = format!("has no path ({error})");
                    UsageError::new("file", path.display(), what)
                })?;
            }
        }
        Ok(self)
    }
}
