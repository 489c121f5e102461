//! Data sets to train and evaluate on, and the translation between text and token ids.
//!
//! A [`Dataset`] returns training batches by seed and index, and the examples of the other splits.
//! Its [`Codec`] translates between text and token ids. [`synthetic`] tasks compute their examples;
//! [`parallel`] corpora are read from files. [`prepare`] makes the data set that a run's
//! configuration names.

pub mod batch;
pub mod codec;
pub mod config;
pub mod dataset;
pub mod example;
pub mod parallel;
pub mod prefetcher;
mod prepare;
pub mod share;
pub mod sides;
pub mod split;
pub mod synthetic;

pub use batch::Batch;
pub use codec::{Codec, EncodeError, Vocabularies};
pub use config::{DataConfig, Preset, SYNTHETIC_TASKS, TASK};
pub use dataset::{Dataset, Limits, TextScores};
pub use example::{DataRng, Decoded, Example, generator};
pub use prepare::{open, prepare, reload};
pub use share::StepShare;
pub use sides::Sides;
pub use split::Split;
pub use synthetic::{Alphabet, SyntheticTask};
