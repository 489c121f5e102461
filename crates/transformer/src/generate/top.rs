//! Selection of the largest logits, and the log-sum-exp of logits.

use std::cmp::Ordering;

/// A candidate: a row (a target being decoded), a token that may extend it, and a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    /// Value by which candidates are ranked, such as a log-probability.
    pub value: f64,
    /// Index of the row, as passed to [`Top::offer`].
    pub row: usize,
    pub token: u32,
}

impl Scored {
    /// Orders candidates from best to worst, and those of equal value as they were offered.
    fn rank(&self, other: &Self) -> Ordering {
        let by_value = other.value.total_cmp(&self.value);
        by_value.then((self.row, self.token).cmp(&(other.row, other.token)))
    }
}

/// The best `k` candidates, sorted from best to worst.
///
/// Candidates of equal value are in the order in which they were offered.
pub(super) struct Top {
    /// The best candidates so far, in no order, and others that [`prune`](Self::prune) drops.
    best: Vec<Scored>,
    k: usize,
    /// Value that a candidate must exceed.
    least: f64,
}

impl Top {
    /// Creates an empty list of at most `k` candidates.
    pub fn new(k: usize) -> Self {
        Self {
            best: Vec::new(),
            k,
            least: f64::NEG_INFINITY,
        }
    }

    /// Offers every token of a row as a candidate, whose value is `offset` plus the token's logit.
    ///
    /// Tokens whose logit is minus infinity or NaN are not candidates.
    pub fn offer(&mut self, row: usize, logits: &[f32], offset: f64) {
        const CHUNK: usize = 64;
        for (chunk, begin) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            // Most chunks of a large vocabulary have no token to keep, and this test skips them.
            let largest = chunk.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
            if !self.takes(f64::from(largest) + offset) {
                continue;
            }
            for (&logit, token) in chunk.iter().zip(begin..) {
                let value = f64::from(logit) + offset;
                if self.takes(value) {
                    self.best.push(Scored { value, row, token });
                    if self.best.len() == 2 * self.k {
                        self.prune();
                    }
                }
            }
        }
    }

    /// Returns whether a candidate of this value would be kept.
    fn takes(&self, value: f64) -> bool {
        value > self.least
    }

    /// Drops all but the best `k` of at least `k` candidates.
    fn prune(&mut self) {
        let (_, worst, _) = self.best.select_nth_unstable_by(self.k - 1, Scored::rank);
        self.least = worst.value;
        self.best.truncate(self.k);
    }

    /// Returns the candidates, sorted from best to worst.
    pub fn into_sorted(mut self) -> Vec<Scored> {
        self.best.sort_unstable_by(Scored::rank);
        self.best.truncate(self.k);
        self.best
    }
}

/// Returns the log-sum-exp of a row's logits, `ln Σ exp(x)`; minus infinity for an empty row.
///
/// NaNs are skipped. The result depends only on the logits of this row: the order of summation is
/// fixed on each machine.
pub(super) fn log_sum_exp(logits: &[f32]) -> f64 {
    fused::log_sum_exp(logits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first() {
        let mut top = Top::new(3);
        top.offer(0, &[1.0, f32::NAN, 3.0, f32::NEG_INFINITY], 0.0);
        top.offer(1, &[1.0, 5.0, 0.5], -2.0);
        let best: Vec<_> = top
            .into_sorted()
            .iter()
            .map(|c| (c.row, c.token, c.value))
            .collect();
        assert_eq!(best, [(0, 2, 3.0), (1, 1, 3.0), (0, 0, 1.0)]);
    }

    #[test]
    fn minus_infinity_and_nan_are_not_candidates() {
        let mut top = Top::new(2);
        top.offer(0, &[f32::NEG_INFINITY, f32::NAN], 0.0);
        assert!(top.into_sorted().is_empty());
    }

    #[test]
    fn an_offset_counts_as_much_as_a_logit() {
        let mut top = Top::new(1);
        top.offer(0, &[2.0], 0.0);
        top.offer(1, &[1.5], 1.0);
        top.offer(2, &[2.5], -1.0);
        assert_eq!(top.into_sorted()[0].row, 1);
    }

    #[test]
    fn candidates_are_found_in_every_chunk() {
        let logits: Vec<f32> = (0..1000).map(|i| ((i * 7919) % 1009) as f32).collect();
        let mut expected: Vec<(f32, u32)> = logits.iter().copied().zip(0..).collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut top = Top::new(17);
        top.offer(0, &logits, 0.0);
        let tokens: Vec<u32> = top.into_sorted().iter().map(|c| c.token).collect();
        let expected: Vec<u32> = expected.iter().take(17).map(|e| e.1).collect();
        assert_eq!(tokens, expected);
    }
}
