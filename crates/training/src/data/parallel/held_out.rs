//! Validation pairs of a run without a validation corpus: training pairs, chosen by their hash.

use std::collections::BTreeMap;

use super::TextConfig;
use super::corpus::{Pair, TrainSettings};
use crate::data::split;
use crate::error::UsageError;
use crate::number::{counted, grouped};

/// Maximum number of different pairs that are held out.
const MAX_PAIRS: usize = 2000;

/// Pairs of the training corpus that are held out for validation.
///
/// A pair is held out if its hash is below a limit, which is `valid_share` times 2^64. Duplicates
/// have the same hash, so a pair and its duplicates are always in the same split. If more than
/// 2,000 different pairs are below the limit, the 2,000 pairs with the smallest hashes are held
/// out. If no hash is below the limit, the pair with the smallest hash is held out.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldOut {
    /// The held-out pairs without duplicates, in the order of the corpus.
    pub(super) pairs: Vec<Pair>,
    /// Indices of the held-out pairs and their duplicates in the corpus, in increasing order.
    indices: Vec<u64>,
    /// Number of pairs in the corpus.
    pub(super) of: u64,
}

impl HeldOut {
    /// Chooses the pairs of a corpus that are held out. Returns `None` if the settings name a
    /// validation corpus.
    pub(super) fn of(config: &TextConfig) -> Result<Option<Self>, UsageError> {
        if config.has_validation_corpus() {
            return Ok(None);
        }
        let pairs = config.train.read(config.read_options())?;
        let held_out = Self::choose(pairs, config.valid_share)?;
        if held_out.of > 0 && held_out.indices.len() as u64 == held_out.of {
            let expected = "has too few different pairs to hold some out for validation: add more, or give --valid-source";
            let path = config.train.source.display();
            return Err(UsageError::setting(TrainSettings::source, path, expected));
        }
        Ok(Some(held_out))
    }

    fn choose(
        pairs: impl Iterator<Item = Result<Pair, UsageError>>,
        share: f64,
    ) -> Result<Self, UsageError> {
        let is_small = |hash: u64| (hash as f64) < share * 2f64.powi(64);
        // Maps the hash of a pair to the pair and to the indices of the pair and its duplicates.
        let mut chosen: BTreeMap<u64, (Pair, Vec<u64>)> = BTreeMap::new();
        let mut of = 0;
        for (index, pair) in pairs.enumerate() {
            let pair = pair?;
            let hash = split::hash(pair.source.bytes().chain([0]).chain(pair.target.bytes()));
            of += 1;
            let smallest = chosen.keys().next().copied();
            if !is_small(hash) && smallest.is_some_and(|smallest| smallest < hash) {
                continue;
            }
            let entry = chosen.entry(hash).or_insert_with(|| (pair, Vec::new()));
            entry.1.push(index as u64);
            let last = chosen.keys().next_back().copied();
            // A pair whose hash is not below the limit is kept only until a smaller hash is found.
            let is_over = chosen.len() > MAX_PAIRS || last.is_some_and(|last| !is_small(last));
            if chosen.len() > 1 && is_over {
                chosen.pop_last();
            }
        }
        let mut chosen: Vec<(Pair, Vec<u64>)> = chosen.into_values().collect();
        chosen.sort_by_key(|(_, indices)| indices[0]);
        let mut indices: Vec<u64> = chosen.iter().flat_map(|(_, i)| i).copied().collect();
        indices.sort_unstable();
        let pairs = chosen.into_iter().map(|(pair, _)| pair).collect();
        Ok(Self { pairs, indices, of })
    }

    /// Returns whether the pair with this index in the corpus is held out.
    pub(super) fn has(&self, index: u64) -> bool {
        self.indices.binary_search(&index).is_ok()
    }

    /// Returns a message that says how many pairs are held out.
    pub(super) fn description(&self) -> String {
        let held_out = grouped(self.indices.len());
        let of = counted(self.of as usize, "pair");
        format!(
            "no validation corpus: {held_out} of {of} held out for validation, chosen by their hash"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(n: usize) -> Pair {
        Pair {
            source: format!("source {n}"),
            target: format!("target {n}"),
        }
    }

    fn choose(numbers: impl Iterator<Item = usize>, share: f64) -> HeldOut {
        HeldOut::choose(numbers.map(|n| Ok(pair(n))), share).unwrap()
    }

    #[test]
    fn a_share_of_the_pairs_is_held_out_and_at_most_2000() {
        let held_out = choose(0..20_000, 0.01);
        let count = held_out.pairs.len();
        assert!((150..250).contains(&count), "{count}");
        assert_eq!((held_out.indices.len(), held_out.of), (count, 20_000));
        for (pair_of, &index) in held_out.pairs.iter().zip(&held_out.indices) {
            assert_eq!(*pair_of, pair(index as usize));
            assert!(held_out.has(index));
        }
        assert_eq!(choose(0..20_000, 0.5).pairs.len(), MAX_PAIRS);
        for n in 1..9 {
            assert_eq!(choose(0..n, 1e-9).pairs.len(), 1);
        }
        assert_eq!(choose(0..0, 0.01).pairs, []);
    }

    #[test]
    fn a_pair_is_on_the_same_side_in_another_corpus() {
        let sides = |numbers: Vec<usize>| {
            let held_out = choose(numbers.iter().copied(), 0.01);
            let side = |(index, n): (usize, &usize)| held_out.has(index as u64).then_some(*n);
            let mut found: Vec<usize> = numbers.iter().enumerate().filter_map(side).collect();
            found.sort_unstable();
            found
        };
        let all = sides((0..9000).collect());
        let some: Vec<usize> = all.iter().copied().filter(|n| *n < 5000).collect();
        assert!(some.len() > 20);
        assert_eq!(sides((0..5000).rev().collect()), some);
    }

    #[test]
    fn duplicates_are_on_the_same_side() {
        // With a share of 0.9, more than 2,000 pairs have hashes below the limit, so some of them
        // are removed again. With a share of 1e-9, only the pair with the smallest hash is held
        // out.
        for (n, share) in [(3000, 0.01), (3000, 0.9), (10, 1e-9)] {
            let held_out = choose((0..n).chain((0..n).rev()), share);
            assert_eq!(held_out.indices.len(), 2 * held_out.pairs.len());
            for index in 0..n {
                let twin = 2 * n - 1 - index;
                assert_eq!(held_out.has(index as u64), held_out.has(twin as u64));
            }
        }
    }
}
