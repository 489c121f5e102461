//! Operations of the Transformer that have a fast path of their own on some backends, and are
//! plain Burn operations on all others.
//!
//! With the feature `flex`, f32 tensors of that backend take the paths of this crate: vector
//! instructions chosen at run time (AVX-512, AVX2, NEON), threads by rayon, and memory of results
//! that is taken again from step to step (`free_buffers` returns it), whose arena is the only
//! unsafe code. With `autodiff` as well, so do tensors under training, with backward passes of
//! this crate. Other backends, each by its feature, and flex's other precisions have such backward
//! passes for attention, residuals, layer norm, activations and cross-entropy, made of Burn's
//! own operations in the tensor's own precision.
//!
//! Results on flex do not depend on the number of threads, and a row's product is the same number,
//! bit for bit, whatever other rows stand in the batch.

#![recursion_limit = "256"]

mod activation;
mod adam;
mod attention;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod buffers;
mod cross_entropy;
mod dropout;
#[cfg(feature = "autodiff")]
mod explicit;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod flex_ops;
mod layer_norm;
mod linear;
mod linear_cross_entropy;
mod log_sum_exp;
#[cfg(feature = "autodiff")]
mod nodes;
mod pool;
#[cfg(feature = "flex")]
pub mod product;
mod profile;
mod relu;
mod residual;
mod sum_of_squares;
mod switch;
#[cfg(feature = "flex")]
mod transpose;

pub use activation::{Activation, activate};
pub use adam::{Adam, Moving};
pub use attention::{Places, attention_step, cross_attention, self_attention};
#[cfg(feature = "flex")]
pub use buffers::{free_buffers, numbers_taken};
pub use cross_entropy::cross_entropy;
pub use dropout::dropout;
pub use layer_norm::layer_norm;
pub use linear::linear;
pub use linear_cross_entropy::linear_cross_entropy;
pub use log_sum_exp::log_sum_exp;
pub use pool::in_pool;
pub use profile::{profile, profiled};
pub use relu::relu;
pub use residual::{residual, residual_and_norm, residual_norm};
pub use sum_of_squares::sum_of_squares;
pub use switch::{enable, is_enabled};
