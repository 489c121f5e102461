//! Divides the batches of a training step among the processes that train together.

use std::ops::Range;

use super::Example;

/// The part of a training step that one process computes, and the size of the whole step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepShare {
    /// Examples of this process: one `Vec` for each batch of the step. It is empty if the process
    /// has no example of the batch, for example because the batch has fewer examples than there are
    /// processes.
    pub batches: Vec<Vec<Example>>,
    /// Numbers of positions in the batches of all processes.
    pub counts: Counts,
}

/// Numbers of positions in the batches of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Labels that are not padding.
    pub tokens: usize,
    /// Positions of sources and labels together, padding included.
    pub positions: usize,
    /// Padding positions in sources and labels together.
    pub padding: usize,
}

impl StepShare {
    /// Returns the share of process `rank` in a group of `size` processes. `batches` has all
    /// examples of the step. Each example is in the share of exactly one process.
    ///
    /// # Panics
    ///
    /// If `rank` is not less than `size`.
    pub fn of(batches: Vec<Vec<Example>>, rank: usize, size: usize) -> Self {
        let mut counts = Counts::default();
        let own = |mut batch: Vec<Example>| {
            let shares = shares(&batch, size);
            for share in &shares {
                counts.add(&batch[share.clone()]);
            }
            batch.truncate(shares[rank].end);
            batch.split_off(shares[rank].start)
        };
        let batches = batches.into_iter().map(own).collect();
        Self { batches, counts }
    }
}

impl Counts {
    /// Adds the counts of examples that are padded to their longest source and longest target.
    fn add(&mut self, examples: &[Example]) {
        let sources = || examples.iter().map(|example| example.source.len());
        let labels = || examples.iter().map(|example| example.target.len() - 1);
        let longest = sources().max().unwrap_or(0) + labels().max().unwrap_or(0);
        let positions = examples.len() * longest;
        self.tokens += labels().sum::<usize>();
        self.positions += positions;
        self.padding += positions - sources().sum::<usize>() - labels().sum::<usize>();
    }
}

/// Divides a batch into `n` shares of consecutive examples with about equal numbers of tokens.
/// Returns the index range of each share.
pub fn shares(batch: &[Example], n: usize) -> Vec<Range<usize>> {
    let tokens = |example: &Example| example.source.len() + example.target.len();
    let total: usize = batch.iter().map(tokens).sum();
    let mut before = 0;
    // If the tokens of the batch are cut into `n` equal parts, an example belongs to the part that
    // has the middle of the example's tokens.
    let part = |example: &Example| {
        let middle = 2 * before + tokens(example);
        before += tokens(example);
        middle * n / (2 * total).max(1)
    };
    let parts: Vec<usize> = batch.iter().map(part).collect();
    let start = |rank: usize| parts.partition_point(|&part| part < rank);
    (0..n).map(|rank| start(rank)..start(rank + 1)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example([source, target]: [usize; 2]) -> Example {
        Example {
            source: vec![5; source],
            target: vec![6; target + 1],
        }
    }

    proptest! {
        #[test]
        fn every_example_is_in_one_share(
            lengths in prop::collection::vec([1_usize..30, 1_usize..30], 0..60),
            size in 1_usize..9,
        ) {
            let batch: Vec<Example> = lengths.iter().copied().map(example).collect();
            let whole = StepShare::of(vec![batch.clone()], 0, 1);
            let shares = (0..size).map(|rank| StepShare::of(vec![batch.clone()], rank, size));
            let shares: Vec<StepShare> = shares.collect();
            let all = shares.iter().flat_map(|share| share.batches[0].iter().cloned());
            prop_assert_eq!(all.collect::<Vec<_>>(), batch.clone());
            let tokens = |batch: &[Example]| -> usize {
                batch.iter().map(|it| it.source.len() + it.target.len()).sum()
            };
            let longest = batch.iter().map(|it| tokens(std::slice::from_ref(it))).max();
            for share in &shares {
                // Every process has the counts of the whole step.
                prop_assert_eq!(share.counts, shares[0].counts);
                prop_assert_eq!(share.counts.tokens, whole.counts.tokens);
                let real = share.counts.positions - share.counts.padding;
                prop_assert_eq!(real, whole.counts.positions - whole.counts.padding);
                // A share has at most 1/`size` of the tokens, plus those of one example.
                let own = tokens(&share.batches[0]);
                prop_assert!(own <= tokens(&batch) / size + longest.unwrap_or(0));
            }
        }
    }

    #[test]
    fn padding_is_that_of_the_shares() {
        // The first of two shares has the two short examples, and the second has the long one, so
        // neither share needs padding.
        let batch = || vec![vec![example([2, 1]), example([2, 1]), example([6, 3])]];
        let alone = StepShare::of(batch(), 0, 1).counts;
        assert_eq!((alone.tokens, alone.positions, alone.padding), (5, 27, 12));
        let of_two = StepShare::of(batch(), 1, 2);
        assert_eq!(of_two.batches, [vec![example([6, 3])]]);
        let counts = of_two.counts;
        assert_eq!(
            (counts.tokens, counts.positions, counts.padding),
            (5, 15, 0)
        );
    }
}
