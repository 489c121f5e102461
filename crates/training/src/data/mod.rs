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
#[doc(hidden)]
pub use codec::{EncodeError, Vocabularies};
pub use config::DataConfig;
#[doc(hidden)]
pub use config::{Preset, SYNTHETIC_TASKS, TASK};
#[doc(hidden)]
pub use dataset::TextScores;
pub use dataset::{Dataset, Limits};
#[doc(hidden)]
pub use example::Decoded;
pub use example::{DataRng, Example, generator};
#[doc(hidden)]
pub use prepare::reload;
pub use prepare::{open, prepare};
#[doc(hidden)]
pub use share::StepShare;
pub use sides::Sides;
pub use split::Split;
pub use synthetic::{Alphabet, SyntheticTask};
