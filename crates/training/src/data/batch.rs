//! Batches of examples as padded tensors. The labels are the targets shifted by one token.
//!
//! Padding is a matter of lengths: a mask hides that of sources, and labels have no loss there,
//! whatever the ids of the tokens.

use std::borrow::Borrow;

use burn::tensor::{Device, Int, Tensor};
use transformer::{AttentionMask, IGNORE_INDEX, pad_sequences};

use super::example::Example;

/// A batch of examples as the model reads them.
///
/// In the shapes, `B` is the number of examples. `S` is the length of the longest source, and `T`
/// is the length of the longest target minus 1. Both are at least 1.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Token ids that the encoder reads, `[B, S]`.
    pub source: Tensor<2, Int>,
    /// Mask that blocks the padding of `source`, `[B, 1, 1, S]`.
    pub source_mask: AttentionMask,
    /// Token ids that the decoder reads, `[B, T]`: the targets without their last token.
    pub target: Tensor<2, Int>,
    /// Token ids that the decoder should predict, `[B, T]`: the targets without their first token.
    /// Padding is [`IGNORE_INDEX`].
    pub labels: Tensor<2, Int>,
    /// Number of labels that are not padding.
    pub tokens: usize,
}

impl Batch {
    /// Creates the tensors of a batch.
    ///
    /// # Panics
    ///
    /// If a target is empty. It must have at least a begin symbol.
    pub fn new(examples: &[impl Borrow<Example>], device: &Device) -> Self {
        let examples = || examples.iter().map(Borrow::borrow);
        let padded = |padding: i64, part: fn(&Example) -> &[u32]| {
            let rows: Vec<&[u32]> = examples().map(part).collect();
            pad_sequences(&rows, padding, device)
        };
        let source = padded(0, |example| &example.source);
        let labels = padded(IGNORE_INDEX, |example| &example.target[1..]);
        let tokens = examples().map(|e| e.target.len() - 1).sum();
        let source_lengths: Vec<usize> = examples().map(|e| e.source.len()).collect();
        Self {
            source,
            source_mask: AttentionMask::of_lengths(&source_lengths, device),
            target: padded(0, |example| &example.target[..example.target.len() - 1]),
            labels,
            tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_shifted_and_padded() {
        let example = |ids: &[u32]| Example {
            source: ids.into(),
            target: [&[1], ids, &[2]].concat(),
        };
        let examples = [example(&[7, 8, 9]), example(&[5])];
        let batch = Batch::new(&examples, &Device::flex());
        let rows = |x: Tensor<2, Int>| x.into_data().iter::<i64>().collect::<Vec<_>>();
        assert_eq!(rows(batch.source), [7, 8, 9, 5, 0, 0]);
        assert_eq!(rows(batch.target), [1, 7, 8, 9, 1, 5, 0, 0]);
        assert_eq!(rows(batch.labels), [7, 8, 9, 2, 5, 2, -100, -100]);
        let blocked = batch.source_mask.blocked().to_data();
        let blocked: Vec<bool> = blocked.iter().collect();
        assert_eq!(blocked, [false, false, false, false, true, true]);
        assert_eq!(batch.tokens, 6);
    }
}
