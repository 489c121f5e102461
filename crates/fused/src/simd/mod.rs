//! Vector code: the instruction-set level, and the routines that several operations share.

pub(crate) mod exp;
pub(crate) mod level;
#[cfg(feature = "flex")]
pub(crate) mod matmul;
#[cfg(feature = "flex")]
pub(crate) mod transpose;
#[cfg(feature = "flex")]
pub(crate) mod vectors;
