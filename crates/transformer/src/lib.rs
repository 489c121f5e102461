//! The Transformer of *Attention Is All You Need* (arXiv 1706.03762) for any Burn backend.
//!
//! Files have the names of the paper's concepts, and each says which section it computes. Shapes
//! are written with these letters throughout: `B` batch, `S` source length, `T` target length,
//! `D` d_model, `H` heads, `K = D / H`, `F` d_ff, `V` vocabulary. Everything is batch-first.
//!
//! The crate enables no backend: switch one on by its feature (`flex`, `ndarray`, `wgpu`,
//! `vulkan`, `metal`, `cuda`, `rocm`) or through your own dependency on `burn`.
//!
//! ```
//! use burn::tensor::{Device, Int, Tensor};
//! use transformer::TransformerConfig;
//!
//! let device = Device::flex();
//! let model = TransformerConfig::new(100, 90)
//!     .with_d_model(32)
//!     .with_n_heads(4)
//!     .with_d_ff(64)
//!     .init(&device)?;
//!
//! let source = Tensor::<2, Int>::from_data([[12, 45, 88, 0]], &device);
//! let target = Tensor::<2, Int>::from_data([[1, 7, 9]], &device);
//! let logits = model.forward(source, target);
//! assert_eq!(logits.dims(), [1, 3, 90]);
//! # Ok::<(), transformer::ConfigError>(())
//! ```

#![recursion_limit = "256"]

mod choice;
mod config;
mod dropout;
mod error;
mod init;
mod linear;
mod mask;
mod sequence;
mod trace;
mod vocabulary;

pub mod attention;
pub mod decoder;
pub mod embedding;
pub mod encoder;
pub mod feed_forward;
pub mod generate;
pub mod generator;
pub mod inspect;
pub mod loss;
pub mod memory;
pub mod model;
pub mod norm;
pub mod position;
pub mod residual;
pub mod weights;

pub use choice::Choice;
pub use config::{
    Activation, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
pub use decoder::Decoder;
pub use embedding::InputLayer;
pub use encoder::Encoder;
pub use error::{ConfigError, InputError};
pub use loss::CrossEntropy;
pub use mask::AttentionMask;
pub use memory::{DecoderCache, Memory};
pub use model::Transformer;
pub use norm::LayerNorm;
pub use sequence::{check_sequences, pad_sequences};
pub use trace::LayerTrace;
pub use vocabulary::{Vocabulary, VocabularyError};

/// The README's program, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
