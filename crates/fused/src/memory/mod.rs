//! Memory for results, reused from step to step.
//!
//! A training step allocates tensors of the same sizes as the step before. A general allocator, or
//! the operating system behind it, clears large blocks, so that each result would first be filled
//! with zeros. The [`arena`] reuses freed blocks without clearing them. One arena serves the whole
//! process, since any thread may drop a tensor.

#![allow(unsafe_code)] // An arena and two casts, each with its reason.

pub(crate) mod arena;
pub(crate) mod buffer;
