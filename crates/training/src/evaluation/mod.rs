//! Evaluation of models on held-out examples.
//!
//! `teacher_forced` scores predictions of each token from the correct tokens before it.
//! [`decode`] lets the model generate the whole output. [`test()`] does both with the trained model
//! at the end of a run, and [`ByLength`] does both on sequences of chosen lengths.

mod batches;
mod by_length;
mod decoding;
mod scores;
mod teacher_forced;

#[doc(hidden)]
pub use by_length::{ByLength, LengthScore, LengthSettings, lengthened};
pub use decoding::{decode, exact_match};
#[doc(hidden)]
pub use decoding::{decode_greedily, generate_config, judge};
#[doc(hidden)]
pub use scores::rounded;
pub use scores::{Scores, TestResult, test};
#[doc(hidden)]
pub use teacher_forced::{TeacherForced, teacher_forced};
