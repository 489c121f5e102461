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
        let mut sorted: Vec<u32> = pairs.collect();
        let key = |&pair: &u32| {
            let [source, target] = lengths(pair);
            // By the longer side first, which is what fills a batch.
            (source.max(target), source, target, pair)
        };
        sorted.sort_unstable_by_key(key);
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
