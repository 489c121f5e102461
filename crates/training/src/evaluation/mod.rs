//! How well a model does on examples that it has not seen.
//!
//! [`teacher_forced`] predicts each token from the correct ones before it; [`decode`] lets the model
//! write the whole output. [`test()`] does both with a finished run's test split, and [`ByLength`]
//! with sequences of chosen lengths.

mod batches;
mod by_length;
mod decoding;
mod scores;
mod teacher_forced;
mod test;

pub use by_length::{ByLength, LengthScore, LengthSettings, lengthened};
pub use decoding::{decode, decode_greedily, exact_match, generate_config};
pub use scores::Scores;
pub use teacher_forced::{TeacherForced, teacher_forced};
pub use test::{TestResult, test};
