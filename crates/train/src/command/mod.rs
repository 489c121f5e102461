//! What each command does.

pub mod backends;
pub mod bench;
pub mod eval;
pub mod fit;
pub mod generate;
mod lengths;
pub mod plot;
pub mod score;
mod texts;
pub mod weights;
