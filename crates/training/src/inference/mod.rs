//! Line-by-line prediction with a trained run.
//!
//! [`Input`] reads lines. [`Predictor`] turns each [`Line`] into a [`Request`], and each request
//! into a result: lines of plain text or JSON.

mod format;
pub mod input;
pub mod predictor;
mod records;
pub mod request;
pub mod work;

pub use input::{Input, Line, Unreadable};
pub use predictor::Predictor;
pub use records::one_line;
pub use request::Request;
pub use work::{Generation, Work};
