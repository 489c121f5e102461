//! Batches of examples for an evaluation.

use crate::collective::Collective;
use crate::data::Example;

/// Maximum number of numbers, such as logits, that one forward pass of several sequences computes at
/// once if no batch size is given. They take 64 MiB in f32.
const NUMBERS: usize = 1 << 24;

/// Maximum number of examples in a batch if no batch size is given.
pub(super) const ROWS: usize = 250;

/// Returns the number of sequences in a forward pass that computes `each` numbers, such as logits,
/// for one sequence: from 1 to [`ROWS`] and, unless it is 1, with at most [`NUMBERS`] numbers.
pub(super) fn rows(each: usize) -> usize {
    (NUMBERS / each).clamp(1, ROWS)
}

/// Returns the indices of the examples that this process of a group computes, in batches of at most
/// `size` examples of similar lengths. If `size` is `None`, it follows from the number of logits
/// over `vocab_size` tokens by [`rows`].
///
/// The processes take batches in turn. Consecutive batches have similar lengths, so the processes
/// have about the same work if there are many batches.
pub(super) fn batches(
    examples: &[Example],
    vocab_size: usize,
    size: Option<usize>,
    group: &dyn Collective,
) -> impl Iterator<Item = Vec<usize>> {
    let length = |example: &Example| example.source.len().max(example.target.len());
    let mut indices: Vec<usize> = (0..examples.len()).collect();
    indices.sort_by_key(|&index| (length(&examples[index]), examples[index].source.len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for index in indices {
        let max_rows = size.unwrap_or(rows(length(&examples[index]) * vocab_size));
        match batches.last_mut() {
            Some(batch) if batch.len() < max_rows => batch.push(index),
            _ => batches.push(vec![index]),
        }
    }
    batches.into_iter().skip(group.rank()).step_by(group.size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Alone;

    #[test]
    fn batches_have_similar_lengths_and_few_logits() {
        let example = |length: usize| Example {
            source: vec![3; length],
            target: vec![3; 2],
        };
        let lengths = [9, 2, 5, 3, 9, 4];
        let examples: Vec<Example> = lengths.into_iter().map(example).collect();
        let of = |vocab_size, size| -> Vec<Vec<usize>> {
            batches(&examples, vocab_size, size, &Alone).collect()
        };
        assert_eq!(of(10, Some(2)), [[1, 3], [5, 2], [0, 4]]);
        assert_eq!(of(10, None).len(), 1);
        // With this vocabulary size, a batch may have at most 16 tokens, padding included.
        let found = of(NUMBERS / 16, None);
        assert_eq!(found, [vec![1, 3, 5], vec![2], vec![0], vec![4]]);
    }
}
