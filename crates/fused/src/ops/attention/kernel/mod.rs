//! Attention of slices, one head of one sequence after the other.

#[cfg(feature = "autodiff")]
pub(super) mod backward;
pub(super) mod forward;
pub(super) mod heads;
pub(super) mod step;
