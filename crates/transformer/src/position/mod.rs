//! Positional encoding (paper, section 3.5): sinusoidal, learned, rotary, relative or ALiBi.

mod encoding;
mod in_attention;
mod table;

pub mod alibi;
pub mod learned;
pub mod relative;
pub mod rotary;
pub mod sinusoidal;

pub(crate) use encoding::max_len;

pub use alibi::Alibi;
pub use encoding::PositionEncoding;
pub use in_attention::{AttentionPosition, PositionTerm};
pub use learned::LearnedEncoding;
pub use relative::RelativeBias;
pub use rotary::{RotaryEncoding, Rotation};
pub use sinusoidal::SinusoidalEncoding;
