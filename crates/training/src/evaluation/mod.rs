//! Evaluation of models on held-out examples.
//!
//! `teacher_forced` scores predictions of each token from the correct tokens before it. `decode` lets
//! the model generate the whole output. [`Finished::test`](crate::trainer::Finished::test) does both
//! with the trained model at the end of a run, and `ByLength` does both on sequences of chosen lengths.

mod batches;
mod by_length;
mod decoding;
mod scores;
mod teacher_forced;

pub(crate) use scores::test;
pub use scores::{Scores, TestResult};

#[doc(hidden)]
pub use {
    by_length::{ByLength, LengthScore, LengthSettings, lengthened},
    decoding::{decode, decode_greedily, exact_match, generate_config, judge},
    scores::rounded,
    teacher_forced::{TeacherForced, teacher_forced},
};
