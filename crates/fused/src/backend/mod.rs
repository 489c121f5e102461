//! Code that all operations share to work with Burn's backends and its autodiff graph.

#[cfg(feature = "flex")]
pub(crate) mod flex;
#[cfg(feature = "autodiff")]
pub(crate) mod graph;
#[cfg(all(feature = "_portable", feature = "autodiff"))]
pub(crate) mod portable;
