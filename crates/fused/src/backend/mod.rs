//! Access to Burn's backends for all operations: tensors of flex as slices, the backends that have
//! portable backward passes, and nodes of the autodiff graph.

#[cfg(feature = "flex")]
pub(crate) mod flex;
#[cfg(feature = "autodiff")]
pub(crate) mod graph;
#[cfg(feature = "autodiff")]
pub(crate) mod portable;
