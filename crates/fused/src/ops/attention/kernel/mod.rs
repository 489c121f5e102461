//! Attention, computed on slices. Each head of each sequence is computed on its own.
//! `attention/mod.rs` explains the letters in shapes.

#[cfg(feature = "autodiff")]
pub(super) mod backward;
pub(super) mod forward;
pub(super) mod heads;
pub(super) mod step;
