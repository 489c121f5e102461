//! From a source to a target: greedy decoding, sampling and beam search, one token a step through
//! the cache (paper, section 6.1).
//!
//! [`Transformer::generate`](crate::Transformer::generate) and
//! [`Decoder::generate`](crate::Decoder::generate) do all of it at once;
//! [`Transformer::stream`](crate::Transformer::stream) yields each step as it comes. The search
//! knows the model by the [`Autoregressive`] trait alone, so that it works with any model of
//! yours, too.
//!
//! ```
//! use burn::tensor::Device;
//! use transformer::TransformerConfig;
//! use transformer::generate::{GenerateConfig, LengthPenalty, Method};
//!
//! let device = Device::flex();
//! let model = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2).init(&device)?;
//! let config = GenerateConfig::new(1, 12)
//!     .with_eos_id(Some(2))
//!     .with_method(Method::Beam { width: 5, length_penalty: LengthPenalty::Average })
//!     .with_n_best(2);
//! let translations = model.generate(&[vec![5, 6, 7], vec![8]], &config)?;
//! assert_eq!(translations[0].len(), 2);
//! assert!(translations[0][0].score >= translations[0][1].score);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod beam;
mod config;
mod constraints;
mod hypothesis;
mod sample;
mod score;
mod search;
mod session;
mod top;

pub use config::{GenerateConfig, LengthLimit, LengthPenalty, Method};
pub use hypothesis::{Hypothesis, StepToken};
pub use score::TargetScore;
pub use search::{GenerateError, Search};
pub use session::{DecoderSession, Generation};

/// What a search needs of a model: the next tokens' logits, for several rows at once.
///
/// A row is a target under way. The model keeps the rows of its last step; each step makes new
/// rows out of them, some maybe not at all and some more than once.
pub trait Autoregressive {
    /// Number of token ids, `V`.
    fn vocab_size(&self) -> usize;

    /// Makes the new rows, the `i`-th of which is row `parents[i]` of the step before with
    /// `tokens[i]` after it, and returns the logits of what comes next: `V` numbers a row, one
    /// row after the other. Logits need not be normalised.
    ///
    /// Before the first step there is one empty row for each source. `parents` never decreases
    /// from one source's rows to the next's.
    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32>;
}
