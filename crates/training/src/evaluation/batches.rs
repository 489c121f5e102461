//! Batches of examples for an evaluation.

use crate::collective::Collective;
use crate::data::Example;

/// Maximum number of logits in one forward pass of several sequences if no batch size is given.
/// They take 64 MiB in f32.
const LOGITS: usize = 1 << 24;

/// Maximum number of examples in a batch if no batch size is given.
pub(super) const ROWS: usize = 250;

/// Returns the indices of the examples, in batches of at most `size` examples of similar lengths.
/// If `size` is `None`, a batch has at most [`ROWS`] examples and, unless it has only one, at most
/// [`LOGITS`] logits over `vocab_size` tokens.
pub(super) fn batches(
    examples: &[Example],
    vocab_size: usize,
    size: Option<usize>,
) -> Vec<Vec<usize>> {
    let length = |example: &Example| example.source.len().max(example.target.len());
    let mut indices: Vec<usize> = (0..examples.len()).collect();
    indices.sort_by_key(|&index| (length(&examples[index]), examples[index].source.len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for index in indices {
        let row = length(&examples[index]) * vocab_size;
        let max_rows = size.unwrap_or((LOGITS / row).clamp(1, ROWS));
        match batches.last_mut() {
            Some(batch) if batch.len() < max_rows => batch.push(index),
            _ => batches.push(vec![index]),
        }
    }
    batches
}

/// Returns the batches that this process of a group computes. The processes take batches in turn.
/// Consecutive batches have similar lengths, so the processes have about the same work if there are
/// many batches.
pub(super) fn own(
    batches: Vec<Vec<usize>>,
    group: &dyn Collective,
) -> impl Iterator<Item = Vec<usize>> {
    batches.into_iter().skip(group.rank()).step_by(group.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_similar_lengths_and_few_logits() {
        let example = |length: usize| Example {
            source: vec![3; length],
            target: vec![3; 2],
        };
        let lengths = [9, 2, 5, 3, 9, 4];
        let examples: Vec<Example> = lengths.into_iter().map(example).collect();
        let found = batches(&examples, 10, Some(2));
        assert_eq!(found, [[1, 3], [5, 2], [0, 4]]);
        assert_eq!(batches(&examples, 10, None).len(), 1);
        // With this vocabulary size, a batch may have at most 16 tokens, padding included.
        let found = batches(&examples, LOGITS / 16, None);
        assert_eq!(found, [vec![1, 3, 5], vec![2], vec![0], vec![4]]);
    }
}
