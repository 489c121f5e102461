//! Line-by-line prediction with a trained run.
//!
//! [`Input`] reads lines, [`Predictor`] turns each [`Line`] into a [`Request`], and requests into
//! lines of text or JSON.

pub mod input;
pub mod predictor;
mod records;

pub use input::{Input, Line, Unreadable};
pub use predictor::{Generation, Predictor, Request, Work};
