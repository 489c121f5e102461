//! chrF (Popović 2015) of a corpus, as sacreBLEU computes it: n-grams of up to six characters without
//! white space, recall counted twice as much as precision.

use super::text::{is_space, matches, n_grams};

const ORDER: usize = 6;

/// The weight `β` of recall.
const BETA: f64 = 2.0;

/// Counts over the segments of a corpus, from which chrF is computed.
#[derive(Clone, Debug, Default)]
pub struct ChrfCounts {
    hypothesis: [u64; ORDER],
    reference: [u64; ORDER],
    both: [u64; ORDER],
}

impl ChrfCounts {
    /// Counts one segment.
    pub fn add(&mut self, hypothesis: &str, reference: &str) {
        let characters =
            |text: &str| -> Vec<char> { text.chars().filter(|&c| !is_space(c)).collect() };
        let [hypothesis, reference] = [hypothesis, reference].map(characters);
        for n in 1..=ORDER {
            let [all, expected] = [&hypothesis, &reference].map(|text| n_grams(text, n));
            let of_reference: u64 = expected.values().sum();
            // As in sacreBLEU: n-grams of a hypothesis count only if its reference has some.
            if of_reference > 0 {
                self.hypothesis[n - 1] += all.values().sum::<u64>();
            }
            self.reference[n - 1] += of_reference;
            self.both[n - 1] += matches(&all, &expected);
        }
    }

    /// Returns the score of all segments so far, from 0 to 100.
    pub fn score(&self) -> f64 {
        let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
        for n in 0..ORDER {
            let [hypothesis, reference, both] =
                [self.hypothesis[n], self.reference[n], self.both[n]].map(|count| count as f64);
            if hypothesis > 0.0 && reference > 0.0 {
                precision += both / hypothesis;
                recall += both / reference;
                orders += 1.0;
            }
        }
        if precision + recall == 0.0 {
            return 0.0;
        }
        let [precision, recall] = [precision, recall].map(|sum| sum / orders);
        let weight = BETA * BETA;
        100.0 * (1.0 + weight) * precision * recall / (weight * precision + recall)
    }
}
