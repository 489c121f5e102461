//! Generation: greedy decoding, sampling and beam search (paper, section 6.1).
//!
//! Each step decodes one token per target. A cache keeps the keys and values of earlier tokens.
//! [`Transformer::generate`](crate::Transformer::generate) and
//! [`Decoder::complete`](crate::Decoder::complete) return complete targets;
//! [`Transformer::stream`](crate::Transformer::stream) yields the tokens of each step. A
//! [`Search`] uses its model only through the [`Autoregressive`] trait, so it also works with a
//! model of your own.
//!
//! ```
//! use burn::tensor::Device;
//! use transformer::TransformerConfig;
//! use transformer::generate::{GenerateConfig, LengthPenalty, Method};
//!
//! let device = Device::flex();
//! let model = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2).init(&device)?;
//! let config = GenerateConfig::new(12).with_bos_id(Some(1))
//!     .with_eos_id(Some(2))
//!     .with_method(Method::Beam { width: 5, length_penalty: LengthPenalty::Average })
//!     .with_n_best(2);
//! let translations = model.generate(&[vec![5, 6, 7], vec![8]], &config)?;
//! assert_eq!(translations[0].len(), 2);
//! assert!(translations[0][0].score >= translations[0][1].score);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod autoregressive;
mod beam;
mod choice;
mod config;
mod constraints;
mod decoder_session;
mod defaults;
mod error;
mod hypothesis;
mod row;
mod sample;
mod score;
mod search;
mod session;
mod source;
mod top;

pub use autoregressive::Autoregressive;
pub use config::{EarlyStopping, GenerateConfig, LengthLimit, LengthPenalty, Method};
pub use decoder_session::DecoderSession;
pub use defaults::GenerateDefaults;
pub use error::GenerateError;
pub use hypothesis::{Hypothesis, StepToken};
pub use score::TargetScore;
pub use search::Search;
pub use session::Generation;
