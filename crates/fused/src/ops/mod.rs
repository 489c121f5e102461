//! The operations, each in its own folder. A folder contains those of the following files that its
//! operation needs, and sometimes others. A folder can replace a file of the same name.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the formula, the public function, and its fallback in plain Burn, if it has one |
//! | `kernel.rs` | the fast path on slices, without Burn |
//! | `flex.rs` | the fast path on tensors of flex: a trait that Burn dispatches, backward passes |
//! | `autodiff.rs` | the node of the autodiff graph on flex, and its gradient |
//! | `portable.rs` | forward and backward pass in Burn's own operations, for every backend |
// The backend ndarray is deprecated.
#![cfg_attr(feature = "ndarray", allow(deprecated))]
// Without a backend, dispatched operations do not read their arguments.
#![cfg_attr(
    not(any(feature = "flex", feature = "ndarray", feature = "_cube")),
    allow(unused_variables)
)]

pub(crate) mod activation;
pub(crate) mod adam;
pub(crate) mod attention;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod int8;
pub(crate) mod layer_norm;
pub(crate) mod linear;
pub(crate) mod residual;
pub(crate) mod rotation;
