//! Scores of texts against references: BLEU and chrF as sacreBLEU 2.6 computes them, and error
//! rates by edit distance.
//!
//! All scores are corpus scores: counts, not scores, are summed over the segments of a corpus. A
//! segment may have several references.
//!
//! ```
//! use training::metrics::{BleuCounts, ChrfCounts, EditCounts, Tokenizer};
//!
//! let (hypothesis, reference) = ("The cat sat on the mat.", "The cat sits on the mat.");
//! let segment = BleuCounts::of_segment(hypothesis, &[reference], Tokenizer::default());
//! let mut bleu = BleuCounts::default();
//! bleu.add(&segment);
//! assert_eq!(bleu.score().precisions[0], 100.0 * 6.0 / 7.0);
//!
//! let perfect = ChrfCounts::of_segment(reference, &["A cat.", reference]);
//! assert_eq!(perfect.score(), 100.0);
//!
//! let mut words = EditCounts::default();
//! words.add_words(hypothesis, &[reference]);
//! assert_eq!(words.rate(), Some(1.0 / 6.0));
//! ```

mod bleu;
mod chrf;
mod error_rate;
mod text;
mod tokenize;

pub use bleu::{Bleu, BleuCounts};
pub use chrf::ChrfCounts;
pub use error_rate::EditCounts;
pub use tokenize::Tokenizer;
