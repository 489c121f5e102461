//! Positional encoding (paper, section 3.5): sinusoidal, learned or rotary.

mod encoding;
mod table;

pub mod learned;
pub mod rotary;
pub mod sinusoidal;

pub(crate) use encoding::max_len;

pub use encoding::PositionEncoding;
pub use learned::LearnedEncoding;
pub use rotary::{RotaryEncoding, Rotation};
pub use sinusoidal::SinusoidalEncoding;
