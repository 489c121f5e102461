//! BLEU (Papineni et al. 2002) of a corpus, as sacreBLEU computes it (Post 2018). It counts n-grams
//! of up to four tokens. Exponential smoothing replaces the precision of an n-gram order whose
//! n-grams have no match, unless no order has a match.

use super::text::{matches, merge_largest, n_grams};
use super::tokenize::Tokenizer;

const ORDER: usize = 4;

/// Counts over the segments of a corpus, from which [`Bleu`] is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BleuCounts {
    matching: [u64; ORDER],
    all: [u64; ORDER],
    hypothesis: u64,
    reference: u64,
}

/// The BLEU score of a corpus and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bleu {
    /// `BP exp(mean of ln p)` from 0 to 100, where `p` are the `precisions` in percent.
    pub score: f64,
    /// Percentage of the hypotheses' n-grams that also occur in a reference, for n from 1 to 4. An
    /// n without a match has a smoothed value. The value is 0 if no n has a match, or if the
    /// hypotheses have no n-grams of this n.
    pub precisions: [f64; ORDER],
    /// Brevity penalty `BP`: below 1 if the hypotheses have fewer tokens in total than the
    /// references.
    pub brevity_penalty: f64,
    /// Number of tokens of all hypotheses.
    pub hypothesis: u64,
    /// Number of tokens of all references. If a segment has several references, the one closest in
    /// length to the hypothesis counts.
    pub reference: u64,
}

impl BleuCounts {
    /// Returns the counts of one segment.
    ///
    /// With several references, an n-gram can match as often as it occurs in the reference that has
    /// it most often. The reference length is the one closest to the hypothesis length.
    ///
    /// # Panics
    ///
    /// If there is no reference.
    pub fn of_segment(hypothesis: &str, references: &[&str], tokenizer: Tokenizer) -> Self {
        let hypothesis = tokenizer.tokens(hypothesis);
        let references = Vec::from_iter(references.iter().map(|text| tokenizer.tokens(text)));
        let lengths = references.iter().map(Vec::len);
        let closest = lengths.min_by_key(|&length| (length.abs_diff(hypothesis.len()), length));
        let mut counts = Self {
            hypothesis: hypothesis.len() as u64,
            reference: closest.expect("a segment has a reference") as u64,
            ..Self::default()
        };
        for n in 1..=ORDER {
            let of_references = references.iter().map(|reference| n_grams(reference, n));
            let expected = of_references.reduce(merge_largest).unwrap_or_default();
            counts.matching[n - 1] = matches(&n_grams(&hypothesis, n), &expected);
            counts.all[n - 1] = (hypothesis.len() + 1).saturating_sub(n) as u64;
        }
        counts
    }

    /// Returns the score of all segments that were added.
    pub fn score(&self) -> Bleu {
        let (hypothesis, reference) = (self.hypothesis, self.reference);
        let brevity_penalty = if hypothesis >= reference {
            1.0
        } else {
            // The penalty is `exp(-inf)`, that is 0, if the hypotheses have no tokens.
            (1.0 - reference as f64 / hypothesis as f64).exp()
        };
        let mut precisions = [0.0; ORDER];
        let mut score = 0.0;
        if self.matching.iter().any(|&matching| matching > 0) {
            let mut smoothing = 1.0;
            let mut sum_of_logs = 0.0;
            let counts = self.matching.into_iter().zip(self.all);
            for (precision, (matching, all)) in precisions.iter_mut().zip(counts) {
                *precision = match (matching, all) {
                    (_, 0) => 0.0,
                    (0, _) => {
                        smoothing *= 2.0;
                        100.0 / (smoothing * all as f64)
                    }
                    _ => 100.0 * matching as f64 / all as f64,
                };
                // The logarithm is -inf if the hypotheses have no n-gram of this order. The score
                // is then 0.
                sum_of_logs += precision.ln();
            }
            score = brevity_penalty * (sum_of_logs / ORDER as f64).exp();
        }
        Bleu {
            score,
            precisions,
            brevity_penalty,
            hypothesis,
            reference,
        }
    }

    /// Adds the counts of other segments.
    pub fn add(&mut self, other: &Self) {
        self.hypothesis += other.hypothesis;
        self.reference += other.reference;
        for n in 0..ORDER {
            self.matching[n] += other.matching[n];
            self.all[n] += other.all[n];
        }
    }
}
