//! Parallel corpora: pairs of texts in files, which are read as pairs of token ids.
//!
//! [`Corpus`] reads pairs of texts from files, and a [`Tokenizer`] translates them into token ids.
//! [`TokenCache`] stores the ids in files, and [`BatchPlan`] groups pairs of similar lengths into
//! batches. [`ParallelDataset`] combines all of these into a data set.

pub mod batches;
pub mod cache;
mod cache_folder;
pub mod config;
pub mod corpus;
pub mod dataset;
mod fingerprints;
mod held_out;
mod lines;
mod prepare;
pub mod pretrained;
pub mod tokenizer;
pub mod tokenizer_pair;
mod train_tokenizers;

pub use batches::{BatchPlan, EpochOrder};
pub use cache::TokenCache;
pub use config::{Overlong, TextConfig};
pub use corpus::{
    Corpus, CorpusStats, Pair, Pairs, ReadOptions, TrainSettings, ValidSettings, is_json_lines,
};
pub use dataset::ParallelDataset;
pub(crate) use pretrained::BATCH_TOKENS;
pub use pretrained::PretrainedConfig;
pub use tokenizer::{
    Normalization, PretrainedTokenizer, Tokenizer, TokenizerConfig, TokenizerKind,
};
pub use tokenizer_pair::TokenizerPair;
