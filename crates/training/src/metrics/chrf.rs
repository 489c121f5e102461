//! chrF (Popović 2015) of a corpus, as sacreBLEU computes it. It counts n-grams of up to six
//! characters without white space, and weights recall twice as much as precision.

use std::array;

use super::text::{is_space, matches, n_grams};

const ORDER: usize = 6;

/// Weight `β` of recall relative to precision.
const BETA: f64 = 2.0;

/// Counts over the segments of a corpus, from which chrF is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChrfCounts {
    hypothesis: [u64; ORDER],
    reference: [u64; ORDER],
    both: [u64; ORDER],
}

impl ChrfCounts {
    /// Returns the counts of one segment, compared with the reference that gives the best score.
    ///
    /// # Panics
    ///
    /// If there is no reference.
    pub fn of_segment(hypothesis: &str, references: &[&str]) -> Self {
        let characters =
            |text: &str| -> Vec<char> { text.chars().filter(|&c| !is_space(c)).collect() };
        let hypothesis = characters(hypothesis);
        let all: [_; ORDER] = array::from_fn(|n| n_grams(&hypothesis, n + 1));
        let mut best: Option<(f64, Self)> = None;
        for reference in references {
            let reference = characters(reference);
            let mut counts = Self::default();
            for (n, all) in all.iter().enumerate() {
                let expected = n_grams(&reference, n + 1);
                counts.reference[n] = expected.values().sum();
                // As in sacreBLEU, hypothesis n-grams count only if the reference has n-grams of
                // this order.
                if counts.reference[n] > 0 {
                    counts.hypothesis[n] = all.values().sum();
                }
                counts.both[n] = matches(all, &expected);
            }
            let score = counts.score();
            // If references have equal scores, the first counts.
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, counts));
            }
        }
        best.expect("a segment has a reference").1
    }

    /// Returns the score of all segments that were added, from 0 to 100.
    pub fn score(&self) -> f64 {
        let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
        for n in 0..ORDER {
            let [hypothesis, reference, both] =
                [self.hypothesis[n], self.reference[n], self.both[n]].map(|count| count as f64);
            // There are hypothesis n-grams only where there are reference n-grams.
            if hypothesis > 0.0 {
                precision += both / hypothesis;
                recall += both / reference;
                orders += 1.0;
            }
        }
        if precision == 0.0 {
            return 0.0;
        }
        let [precision, recall] = [precision, recall].map(|sum| sum / orders);
        let weight = BETA.powi(2);
        100.0 * (1.0 + weight) * precision * recall / (weight * precision + recall)
    }

    /// Adds the counts of other segments.
    pub fn add(&mut self, other: &Self) {
        for n in 0..ORDER {
            self.hypothesis[n] += other.hypothesis[n];
            self.reference[n] += other.reference[n];
            self.both[n] += other.both[n];
        }
    }
}
