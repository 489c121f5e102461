//! Batches of examples for an evaluation.

use transformer::batches_by_length;

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
    let lengths = Vec::from_iter(examples.iter().map(|it| [it.source.len(), it.target.len()]));
    let (rows, tokens) = size.map_or((ROWS, NUMBERS / vocab_size), |size| (size, usize::MAX));
    let batches = batches_by_length(&lengths, rows, tokens);
    batches.into_iter().skip(group.rank()).step_by(group.size())
}
