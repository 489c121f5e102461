//! Scores of texts against references: BLEU and chrF as sacreBLEU 2.6 computes them, and error
//! rates by edit distance. A paired bootstrap compares the scores of several systems.
//!
//! All scores are corpus scores: counts, not scores, are summed over the segments of a corpus. A
//! segment may have several references.
//!
//! ```
//! use training::metrics::{BleuCounts, ChrfCounts, Counts, EditCounts, Tokenizer, paired_bootstrap};
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
//!
//! // A baseline and another system, with one segment each.
//! let other = ChrfCounts::of_segment(hypothesis, &[reference]);
//! let systems = [vec![perfect], vec![other]];
//! let found = paired_bootstrap(&systems, 1000, 12345);
//! assert_eq!((found[0].mean, found[0].p_value), (100.0, None));
//! assert!(found[1].mean < 100.0);
//! ```

mod bleu;
mod bootstrap;
mod chrf;
mod counts;
mod error_rate;
mod numpy;
mod text;
mod tokenize;

pub use bleu::{Bleu, BleuCounts};
pub use bootstrap::{BootstrapScore, paired_bootstrap};
pub use chrf::ChrfCounts;
pub use counts::Counts;
pub use error_rate::EditCounts;
pub use tokenize::Tokenizer;
