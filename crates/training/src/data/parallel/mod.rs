//! Parallel corpora: pairs of texts in files, read as pairs of token ids.
//!
//! [`Corpus`] reads pairs of texts from files, a [`Tokenizer`] translates them into ids,
//! [`TokenCache`] keeps the ids in files, [`BatchPlan`] groups pairs of similar lengths into
//! batches, and [`ParallelDataset`] is the data set of all of this.

pub mod batches;
pub mod cache;
mod cache_folder;
pub mod config;
pub mod corpus;
pub mod dataset;
mod fingerprint;
mod held_out;
mod lines;
mod prepare;
pub mod tokenizer;
pub mod tokenizer_pair;
mod train_tokenizers;

pub use batches::{BatchPlan, EpochOrder};
pub use cache::TokenCache;
pub use config::{Overlong, TextConfig};
pub use corpus::{Corpus, CorpusStats, Pair, Pairs, ReadOptions, is_json_lines};
pub use dataset::ParallelDataset;
pub use fingerprint::Fingerprint;
pub use held_out::ValidationPairs;
pub use tokenizer::{Normalization, Pieces, Tokenizer, TokenizerConfig, TokenizerKind};
pub use tokenizer_pair::TokenizerPair;
