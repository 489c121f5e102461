//! Line-by-line prediction with a trained run.
//!
//! [`Input`] reads lines. [`Predictor`] turns each [`Line`] into a [`Request`], and each request
//! into a result: lines of plain text or JSON.

pub(crate) mod input;
pub(crate) mod predictor;
mod records;
pub(crate) mod request;
mod stream;
pub(crate) mod work;

pub use input::Line;
#[doc(hidden)]
pub use input::{Input, Unreadable};
pub use predictor::Predictor;
#[doc(hidden)]
pub use records::one_line;
#[doc(hidden)]
pub use request::Request;
pub use work::{Generation, Work};
