//! Batches of pairs of similar lengths, limited by their number of tokens. The order of batches
//! depends only on the seed and the epoch.

use rand::seq::SliceRandom;

use crate::data::{Split, generator};

/// Division of the pairs of a corpus into batches.
///
/// A plan sorts pairs by their lengths and splits them into batches once. Each epoch shuffles the
/// pairs within each group of equal lengths, and then shuffles the batches. All epochs have the
/// same number of batches.
pub struct BatchPlan {
    /// Indices of the pairs in the corpus, sorted by lengths.
    sorted: Vec<u32>,
    /// Index in `sorted` of the first pair of each group of equal lengths, then the length of
    /// `sorted`.
    groups: Vec<u32>,
    /// Index in `sorted` of the first pair of each batch, then the length of `sorted`.
    batches: Vec<u32>,
    /// Number of tokens in an epoch, without padding.
    tokens: u64,
    /// Number of positions in an epoch, padding included.
    positions: u64,
}

/// The order of pairs and batches in one epoch.
pub struct EpochOrder {
    pairs: Vec<u32>,
    batches: Vec<u32>,
}

impl BatchPlan {
    /// Plans the batches of the pairs whose indices are `pairs`. `lengths` returns the number of
    /// tokens of a pair's source and of its target, as the model reads them. The sources of a batch
    /// have at most `batch_tokens` positions, padding included, and so have its targets. A pair
    /// with a longer source or target is a batch of its own.
    pub fn new(
        pairs: impl Iterator<Item = u32>,
        lengths: impl Fn(u32) -> [usize; 2],
        batch_tokens: usize,
    ) -> Self {
        // The length of the longer side comes first in the key, because it limits the number of
        // pairs in a batch. Each key is computed only once: for millions of pairs, looking up
        // lengths takes longer than sorting.
        let key = |pair: u32| {
            let [source, target] = lengths(pair);
            let lengths = [source.max(target), source, target];
            (lengths.map(|length| length as u32), pair)
        };
        let mut keys: Vec<([u32; 3], u32)> = pairs.map(key).collect();
        keys.sort_unstable();
        let mut plan = Self {
            sorted: keys.iter().map(|(_, pair)| *pair).collect(),
            groups: vec![0],
            batches: vec![0],
            tokens: 0,
            positions: 0,
        };
        let mut end_of_group = 0;
        for group in keys.chunk_by(|a, b| a.0 == b.0) {
            end_of_group += group.len() as u32;
            plan.groups.push(end_of_group);
        }
        let (mut begin, mut longest) = (0, [0, 0]);
        for (position, (key, _)) in keys.iter().enumerate() {
            let [_, source, target] = key.map(|length| length as usize);
            let with = [source.max(longest[0]), target.max(longest[1])];
            let rows = position - begin + 1;
            if rows > 1 && rows * with[0].max(with[1]) > batch_tokens {
                plan.positions += ((rows - 1) * (longest[0] + longest[1])) as u64;
                plan.batches.push(position as u32);
                begin = position;
                longest = [source, target];
            } else {
                longest = with;
            }
            plan.tokens += (source + target) as u64;
        }
        let end = keys.len();
        plan.positions += ((end - begin) * (longest[0] + longest[1])) as u64;
        if end > 0 {
            plan.batches.push(end as u32);
        }
        plan
    }

    /// Returns the number of batches of an epoch.
    pub fn batches(&self) -> usize {
        self.batches.len() - 1
    }

    /// Returns the number of pairs of an epoch.
    pub fn pairs(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the fraction of padding among the positions of all batches; 1 if there are no pairs.
    pub fn padding(&self) -> f64 {
        1.0 - self.tokens as f64 / (self.positions as f64).max(1.0)
    }

    /// Returns the order of pairs and batches in epoch `epoch`, counted from 0.
    pub fn epoch(&self, seed: u64, epoch: u64) -> EpochOrder {
        let mut rng = generator(seed, Split::Train, epoch);
        let mut pairs = self.sorted.clone();
        for group in self.groups.windows(2) {
            pairs[group[0] as usize..group[1] as usize].shuffle(&mut rng);
        }
        let mut batches: Vec<u32> = (0..self.batches() as u32).collect();
        batches.shuffle(&mut rng);
        EpochOrder { pairs, batches }
    }

    /// Returns the indices of the pairs in batch `index`, counted from 0 in each epoch.
    pub fn batch<'a>(&self, epoch: &'a EpochOrder, index: usize) -> &'a [u32] {
        let batch = epoch.batches[index] as usize;
        &epoch.pairs[self.batches[batch] as usize..self.batches[batch + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::RngExt;

    use super::*;

    /// Returns random lengths of `n` pairs. A target is about as long as its source.
    fn lengths(n: u32) -> Vec<[usize; 2]> {
        let mut rng = generator(5, Split::Test, 0);
        let pair = |_| {
            let source = rng.random_range(1..40usize);
            [
                source,
                (source + rng.random_range(0..6)).saturating_sub(2).max(1),
            ]
        };
        (0..n).map(pair).collect()
    }

    fn plan(lengths: &[[usize; 2]], batch_tokens: usize) -> BatchPlan {
        let pairs = 0..lengths.len() as u32;
        BatchPlan::new(pairs, |pair| lengths[pair as usize], batch_tokens)
    }

    #[test]
    fn an_epoch_has_every_pair_once_in_batches_that_are_not_too_large() {
        let lengths = lengths(3000);
        for batch_tokens in [1, 30, 500, 1_000_000] {
            let plan = plan(&lengths, batch_tokens);
            let epoch = plan.epoch(7, 3);
            let mut seen = HashSet::new();
            let (mut tokens, mut positions) = (0, 0);
            for index in 0..plan.batches() {
                let batch = plan.batch(&epoch, index);
                let longest = |side: usize| {
                    let lengths = batch.iter().map(|&pair| lengths[pair as usize][side]);
                    lengths.max().unwrap()
                };
                let most = longest(0).max(longest(1));
                assert!(batch.len() == 1 || batch.len() * most <= batch_tokens);
                assert!(batch.iter().all(|pair| seen.insert(*pair)));
                positions += batch.len() * (longest(0) + longest(1));
                tokens += batch
                    .iter()
                    .flat_map(|&p| lengths[p as usize])
                    .sum::<usize>();
            }
            assert_eq!((seen.len(), plan.pairs()), (3000, 3000));
            let padding = 1.0 - tokens as f64 / positions as f64;
            assert!((plan.padding() - padding).abs() < 1e-12);
        }
        assert!(plan(&lengths, 500).padding() < 0.08);
    }

    #[test]
    fn the_order_is_a_function_of_seed_and_epoch() {
        let lengths = lengths(2000);
        let plan = plan(&lengths, 400);
        let order = |seed, epoch| -> Vec<Vec<u32>> {
            let epoch = plan.epoch(seed, epoch);
            let batches = (0..plan.batches()).map(|index| plan.batch(&epoch, index).to_vec());
            batches.collect()
        };
        assert_eq!(order(0, 0), order(0, 0));
        let sorted = |order: Vec<Vec<u32>>| -> HashSet<Vec<u32>> {
            let sorted = order.into_iter().map(|mut batch| {
                batch.sort_unstable();
                batch
            });
            sorted.collect()
        };
        for other in [order(1, 0), order(0, 1)] {
            assert_ne!(other, order(0, 0));
            // The batches themselves differ, not only their order.
            let both = sorted(other.clone());
            let same = both.intersection(&sorted(order(0, 0))).count();
            assert!(same < plan.batches() / 5, "{same} of {}", plan.batches());
        }
    }

    #[test]
    fn no_pairs_make_no_batches() {
        let plan = plan(&[], 100);
        assert_eq!(plan.batches(), 0);
        assert_eq!((plan.pairs(), plan.padding()), (0, 1.0));
    }
}
