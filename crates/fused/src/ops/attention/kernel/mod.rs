//! Attention, computed on slices. Each head of each sequence is computed on its own.

#[cfg(feature = "autodiff")]
pub(super) mod backward;
pub(super) mod forward;
pub(super) mod heads;
pub(super) mod step;
