//! Parallel corpora: pairs of texts in files, which are read as pairs of token ids.
//!
//! [`Corpus`] reads pairs of texts from files, and a [`Tokenizer`] translates them into token ids.
//! [`TokenCache`] stores the ids in files, and [`BatchPlan`] groups pairs of similar lengths into
//! batches. [`ParallelDataset`] combines all of these into a data set.

pub(crate) mod batches;
pub(crate) mod cache;
mod cache_folder;
pub(crate) mod config;
pub(crate) mod corpus;
pub(crate) mod dataset;
mod fingerprints;
mod held_out;
mod lines;
mod prepare;
pub(crate) mod pretrained;
#[doc(hidden)]
pub mod tokenizer;
pub(crate) mod tokenizer_pair;
mod train_tokenizers;

pub(crate) use cache_folder::is_in_cache;
pub use config::TextConfig;
pub(crate) use pretrained::BATCH_TOKENS;
pub use tokenizer::{Tokenizer, TokenizerConfig, TokenizerKind};

#[doc(hidden)]
pub use {
    batches::{BatchPlan, EpochOrder},
    cache::TokenCache,
    config::Overlong,
    corpus::{
        Corpus, CorpusStats, Pair, Pairs, ReadOptions, TrainSettings, ValidSettings, is_json_lines,
    },
    dataset::{ParallelDataset, note_stats, warn_of_case},
    pretrained::PretrainedConfig,
    tokenizer::{Normalization, PretrainedTokenizer, UNK},
    tokenizer_pair::TokenizerPair,
};
