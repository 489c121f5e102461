//! Batches of so many tokens: pairs of like lengths stand together, in an order that is a function
//! of (seed, epoch).

use rand::seq::SliceRandom;

use crate::task::{Split, generator};

/// Which pairs make a batch, up to the order of equals.
///
/// Pairs are sorted by their lengths and cut into batches once; an epoch shuffles pairs of the same
/// lengths among each other, and then the batches. So every epoch has as many batches as any other.
pub struct BatchPlan {
    /// The pairs, by lengths.
    sorted: Vec<u32>,
    /// Where pairs of other lengths begin in `sorted`; the last is its end.
    groups: Vec<u32>,
    /// Where batches begin in `sorted`; the last is its end.
    batches: Vec<u32>,
    /// Tokens and places of an epoch.
    tokens: u64,
    places: u64,
}

/// An epoch's order.
pub struct Epoch {
    pairs: Vec<u32>,
    batches: Vec<u32>,
}

impl BatchPlan {
    /// A plan for pairs of these lengths (source and target, as the model reads them), by their
    /// numbers. A batch has at most `batch_tokens` places a side, padding included; one pair that
    /// is longer makes a batch of its own.
    pub fn new(
        pairs: impl Iterator<Item = u32>,
        lengths: impl Fn(u32) -> [usize; 2],
        batch_tokens: usize,
    ) -> Self {
        // By the longer side first, which is what fills a batch. Of millions of pairs, looking
        // lengths up takes longer than sorting.
        let key = |pair: u32| {
            let [source, target] = lengths(pair);
            let lengths = [source.max(target), source, target];
            (lengths.map(|length| length as u32), pair)
        };
        let mut keys: Vec<_> = pairs.map(key).collect();
        keys.sort_unstable();
        let sorted: Vec<u32> = keys.into_iter().map(|(_, pair)| pair).collect();
        let mut plan = Self {
            groups: Vec::new(),
            batches: vec![0],
            tokens: 0,
            places: 0,
            sorted: Vec::new(),
        };
        let (mut begin, mut longest) = (0, [0, 0]);
        let mut last = None;
        for (place, &pair) in sorted.iter().enumerate() {
            let [source, target] = lengths(pair);
            if last != Some([source, target]) {
                plan.groups.push(place as u32);
                last = Some([source, target]);
            }
            let with = [source.max(longest[0]), target.max(longest[1])];
            let rows = place - begin + 1;
            if rows > 1 && rows * with[0].max(with[1]) > batch_tokens {
                plan.places += ((rows - 1) * (longest[0] + longest[1])) as u64;
                plan.batches.push(place as u32);
                begin = place;
                longest = [source, target];
            } else {
                longest = with;
            }
            plan.tokens += (source + target) as u64;
        }
        let end = sorted.len();
        plan.places += ((end - begin) * (longest[0] + longest[1])) as u64;
        plan.groups.push(end as u32);
        if end > 0 {
            plan.batches.push(end as u32);
        }
        plan.sorted = sorted;
        plan
    }

    /// Batches of an epoch.
    pub fn len(&self) -> usize {
        self.batches.len() - 1
    }

    /// Whether there is nothing to learn from.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pairs of an epoch.
    pub fn pairs(&self) -> usize {
        self.sorted.len()
    }

    /// Share of padding among the places of all batches.
    pub fn padding(&self) -> f64 {
        1.0 - self.tokens as f64 / (self.places as f64).max(1.0)
    }

    /// The order of an epoch, counted from 0.
    pub fn epoch(&self, seed: u64, epoch: u64) -> Epoch {
        let mut rng = generator(seed, Split::Train, epoch);
        let mut pairs = self.sorted.clone();
        for group in self.groups.windows(2) {
            pairs[group[0] as usize..group[1] as usize].shuffle(&mut rng);
        }
        let mut batches: Vec<u32> = (0..self.len() as u32).collect();
        batches.shuffle(&mut rng);
        Epoch { pairs, batches }
    }

    /// The pairs of an epoch's batch, counted from 0.
    pub fn batch<'a>(&self, epoch: &'a Epoch, index: usize) -> &'a [u32] {
        let batch = epoch.batches[index] as usize;
        &epoch.pairs[self.batches[batch] as usize..self.batches[batch + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::RngExt;

    use super::*;

    /// Lengths as of a corpus: a target is about as long as its source.
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
            let (mut tokens, mut places) = (0, 0);
            for index in 0..plan.len() {
                let batch = plan.batch(&epoch, index);
                let longest = |side: usize| {
                    let lengths = batch.iter().map(|&pair| lengths[pair as usize][side]);
                    lengths.max().unwrap()
                };
                let most = longest(0).max(longest(1));
                assert!(batch.len() == 1 || batch.len() * most <= batch_tokens);
                assert!(batch.iter().all(|pair| seen.insert(*pair)));
                places += batch.len() * (longest(0) + longest(1));
                tokens += batch
                    .iter()
                    .flat_map(|&p| lengths[p as usize])
                    .sum::<usize>();
            }
            assert_eq!((seen.len(), plan.pairs()), (3000, 3000));
            let padding = 1.0 - tokens as f64 / places as f64;
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
            let batches = (0..plan.len()).map(|index| plan.batch(&epoch, index).to_vec());
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
            // Not the same batches in another order, either.
            let both = sorted(other.clone());
            let same = both.intersection(&sorted(order(0, 0))).count();
            assert!(same < plan.len() / 5, "{same} of {}", plan.len());
        }
    }

    #[test]
    fn no_pairs_make_no_batches() {
        let plan = plan(&[], 100);
        assert!(plan.is_empty());
        assert_eq!((plan.pairs(), plan.padding()), (0, 1.0));
    }
}
