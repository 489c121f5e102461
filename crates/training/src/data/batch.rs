//! Batches of examples as padded tensors. The labels are the targets shifted by one token.

use std::borrow::Borrow;

use burn::tensor::{Device, Int, Tensor};
use transformer::pad_sequences;

use super::example::Example;
use super::sides::Sides;

/// A batch of examples as the model reads them.
///
/// In the shapes, `B` is the number of examples. `S` is the length of the longest source, and `T`
/// is the length of the longest target minus 1. Both are at least 1.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Token ids that the encoder reads, `[B, S]`.
    pub source: Tensor<2, Int>,
    /// Token ids that the decoder reads, `[B, T]`: the targets without their last token.
    pub target: Tensor<2, Int>,
    /// Token ids that the decoder should predict, `[B, T]`: the targets without their first token.
    pub labels: Tensor<2, Int>,
    /// Number of labels that are not padding.
    pub tokens: usize,
    /// Number of positions of `source` and `labels` together, padding included.
    pub positions: usize,
    /// Number of padding positions in `source` and `labels` together.
    pub padding: usize,
}

impl Batch {
    /// Creates the tensors of a batch. Sources are padded to length `S` with `pad_ids.source`.
    /// Targets and labels are padded to length `T` with `pad_ids.target`.
    ///
    /// # Panics
    ///
    /// If a target is empty. It must have at least a begin symbol.
    pub fn new(examples: &[impl Borrow<Example>], pad_ids: Sides<u32>, device: &Device) -> Self {
        let examples = || examples.iter().map(Borrow::borrow);
        let padded = |pad_id, part: fn(&Example) -> &[u32]| {
            let rows: Vec<&[u32]> = examples().map(part).collect();
            pad_sequences(&rows, pad_id, device)
        };
        let source = padded(pad_ids.source, |example| &example.source);
        let labels = padded(pad_ids.target, |example| &example.target[1..]);
        let tokens = examples().map(|e| e.target.len() - 1).sum();
        let source_tokens: usize = examples().map(|e| e.source.len()).sum();
        let positions = source.shape().num_elements() + labels.shape().num_elements();
        Self {
            source,
            target: padded(pad_ids.target, |example| {
                &example.target[..example.target.len() - 1]
            }),
            labels,
            tokens,
            positions,
            padding: positions - tokens - source_tokens,
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
        let pad_ids = Sides {
            source: 0,
            target: 3,
        };
        let examples = [example(&[7, 8, 9]), example(&[5])];
        let batch = Batch::new(&examples, pad_ids, &Device::flex());
        let rows = |x: Tensor<2, Int>| x.into_data().iter::<i64>().collect::<Vec<_>>();
        assert_eq!(rows(batch.source), [7, 8, 9, 5, 0, 0]);
        assert_eq!(rows(batch.target), [1, 7, 8, 9, 1, 5, 3, 3]);
        assert_eq!(rows(batch.labels), [7, 8, 9, 2, 5, 2, 3, 3]);
        assert_eq!(batch.tokens, 6);
        assert_eq!((batch.positions, batch.padding), (14, 4));
    }
}
