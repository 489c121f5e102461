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

#[doc(hidden)]
pub use batches::{BatchPlan, EpochOrder};
#[doc(hidden)]
pub use cache::TokenCache;
#[doc(hidden)]
pub use config::Overlong;
pub use config::TextConfig;
#[doc(hidden)]
pub use corpus::{
    Corpus, CorpusStats, Pair, Pairs, ReadOptions, TrainSettings, ValidSettings, is_json_lines,
};
#[doc(hidden)]
pub use dataset::ParallelDataset;
pub(crate) use pretrained::BATCH_TOKENS;
#[doc(hidden)]
pub use pretrained::PretrainedConfig;
#[doc(hidden)]
pub use tokenizer::{Normalization, PretrainedTokenizer, UNK};
pub use tokenizer::{Tokenizer, TokenizerConfig, TokenizerKind};
#[doc(hidden)]
pub use tokenizer_pair::TokenizerPair;
