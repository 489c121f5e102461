//! Vector code: the instruction-set level, and the routines that several operations share.

pub(crate) mod exp;
#[cfg(feature = "flex")]
pub(crate) mod int8;
pub(crate) mod level;
#[cfg(feature = "flex")]
pub(crate) mod matmul;
#[cfg(feature = "flex")]
pub(crate) mod prefetch;
#[cfg(all(feature = "flex", target_arch = "x86_64"))]
pub(crate) mod tiles;
#[cfg(feature = "flex")]
pub(crate) mod transpose;
#[cfg(feature = "flex")]
pub(crate) mod vectors;
