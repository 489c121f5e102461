//! Data sets to train and evaluate on, and the translation between text and token ids.
//!
//! A [`Dataset`] returns training batches by seed and index, and the examples of the other splits.
//! Its [`Codec`] translates between text and token ids. [`synthetic`] tasks compute their examples;
//! [`parallel`] corpora are read from files. [`prepare`] makes the data set that a run's
//! configuration names.

pub(crate) mod batch;
pub(crate) mod codec;
pub(crate) mod config;
pub(crate) mod dataset;
pub(crate) mod example;
pub mod parallel;
mod prepare;
#[doc(hidden)]
pub mod share;
pub(crate) mod sides;
pub(crate) mod split;
pub mod synthetic;

pub use batch::Batch;
pub use codec::Codec;
pub use config::DataConfig;
pub use dataset::{Dataset, Limits};
pub use example::{DataRng, Example, generator};
pub use prepare::{open, prepare};
pub use sides::Sides;
pub use split::Split;
pub use synthetic::{Alphabet, SyntheticTask};

#[doc(hidden)]
pub use {
    codec::{EncodeError, UnknownCounts, Vocabularies, note_unknown},
    config::{Preset, SYNTHETIC_TASKS, TASK},
    dataset::TextScores,
    example::Decoded,
    prepare::reload,
    share::StepShare,
};
