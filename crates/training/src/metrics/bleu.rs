//! BLEU (Papineni et al. 2002) of a corpus, as sacreBLEU computes it (Post 2018): n-grams of up to
//! four tokens, one reference, and exponential smoothing where no n-gram of an order matches.

use super::text::{matches, n_grams};
use super::tokenize::Tokenizer;

const ORDER: usize = 4;

/// Counts over the segments of a corpus, from which [`Bleu`] is computed.
#[derive(Clone, Debug, Default)]
pub struct BleuCounts {
    matching: [u64; ORDER],
    all: [u64; ORDER],
    hypothesis: u64,
    reference: u64,
}

/// The BLEU score of a corpus and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bleu {
    /// `100 BP exp(mean of ln precision)`, from 0 to 100.
    pub score: f64,
    /// Percentage of the n-grams of 1 to 4 tokens that the reference has, too.
    pub precisions: [f64; ORDER],
    /// The brevity penalty `BP`: below 1 if all hypotheses together are shorter than all references.
    pub brevity_penalty: f64,
    /// Number of tokens of the hypotheses.
    pub hypothesis: u64,
    /// Number of tokens of the references.
    pub reference: u64,
}

impl BleuCounts {
    /// Counts one segment.
    pub fn add(&mut self, hypothesis: &str, reference: &str, tokenizer: Tokenizer) {
        let [hypothesis, reference] = [hypothesis, reference].map(|text| tokenizer.tokens(text));
        self.hypothesis += hypothesis.len() as u64;
        self.reference += reference.len() as u64;
        for n in 1..=ORDER {
            self.matching[n - 1] += matches(&n_grams(&hypothesis, n), &n_grams(&reference, n));
            self.all[n - 1] += (hypothesis.len() + 1).saturating_sub(n) as u64;
        }
    }

    /// Returns the score of all segments so far.
    pub fn score(&self) -> Bleu {
        let Self {
            hypothesis,
            reference,
            ..
        } = *self;
        let brevity_penalty = match hypothesis {
            _ if hypothesis >= reference => 1.0,
            0 => 0.0,
            _ => (1.0 - reference as f64 / hypothesis as f64).exp(),
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
                // An order without a single n-gram makes the score 0.
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
}
