//! Examples as tensors: shifted targets, padding at the end.

use std::borrow::Borrow;

use burn::tensor::{Device, Int, Tensor};
use transformer::pad_sequences;

use crate::task::Example;

/// Some examples as the model takes them.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What the encoder reads, `[B, S]`.
    pub source: Tensor<2, Int>,
    /// What the decoder reads, `[B, T]`: the targets without their last token.
    pub target: Tensor<2, Int>,
    /// What it should predict, `[B, T]`: the targets without their first token.
    pub right: Tensor<2, Int>,
    /// Number of predicted tokens that are not padding.
    pub tokens: usize,
    /// Number of tokens of sources and predicted targets that are.
    pub padding: usize,
}

impl Batch {
    /// Pads the examples to the longest of them.
    pub fn new(examples: &[impl Borrow<Example>], pad_id: u32, device: &Device) -> Self {
        let examples = || examples.iter().map(Borrow::borrow);
        let part = |f: fn(&Example) -> &[u32]| {
            let rows: Vec<&[u32]> = examples().map(f).collect();
            pad_sequences(&rows, pad_id, device)
        };
        let source = part(|example| &example.source);
        let right = part(|example| &example.target[1..]);
        let tokens = examples().map(|e| e.target.len() - 1).sum();
        let sources: usize = examples().map(|e| e.source.len()).sum();
        let places = source.shape().num_elements() + right.shape().num_elements();
        Self {
            source,
            target: part(|example| &example.target[..example.target.len() - 1]),
            right,
            tokens,
            padding: places - tokens - sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_shifted_and_padded() {
        let example = |ids: &[u32]| {
            let mut target = vec![1];
            target.extend(ids);
            target.push(2);
            Example {
                source: ids.into(),
                target,
            }
        };
        let batch = Batch::new(&[example(&[7, 8, 9]), example(&[5])], 0, &Device::flex());
        let rows = |x: Tensor<2, Int>| x.into_data().iter::<i64>().collect::<Vec<_>>();
        assert_eq!(rows(batch.source), [7, 8, 9, 5, 0, 0]);
        assert_eq!(rows(batch.target), [1, 7, 8, 9, 1, 5, 0, 0]);
        assert_eq!(rows(batch.right), [7, 8, 9, 2, 5, 2, 0, 0]);
        assert_eq!(batch.tokens, 6);
        assert_eq!(batch.padding, 4);
    }
}
