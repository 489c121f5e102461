//! How likely given targets are, and what they look at.

use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;

use super::search::GenerateError;
use crate::error::InputError;
use crate::model::Transformer;
use crate::sequence::{check_sequences, pad_sequences};

/// A given target's probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetScore {
    /// Log-probability of each token, and after them that of the end symbol if there is one.
    pub token_log_probabilities: Vec<f32>,
    /// Their sum.
    pub log_probability: f64,
}

impl Transformer {
    /// The log-probability of each target, given its source: `ln p(target | source)`.
    ///
    /// Targets are given without begin and end symbol; both are added.
    ///
    /// # Errors
    ///
    /// No pair at all, or sequences that the model cannot take.
    ///
    /// # Panics
    ///
    /// If there is not one target for each source.
    pub fn score(
        &self,
        sources: &[impl AsRef<[u32]>],
        targets: &[impl AsRef<[u32]>],
        bos_id: u32,
        eos_id: Option<u32>,
    ) -> Result<Vec<TargetScore>, GenerateError> {
        let inputs = self.shifted(sources, targets, bos_id, eos_id.is_some())?;
        let device = self.decoder.input.table().device();
        let memory = self.encode_checked(sources)?;
        let ids = pad_sequences(&inputs, self.pad_id(), &device);
        let logits = self.decode(ids, &memory, &mut self.new_cache());
        let [_, length, vocab_size] = logits.dims();
        let data = log_softmax(logits, 2).into_data();
        let log_probabilities: Vec<f32> = data.iter::<f32>().collect();
        let rows = log_probabilities.chunks(length * vocab_size);
        let score = |(row, target): (&[f32], &[u32])| {
            let right = target.iter().copied().chain(eos_id);
            let token_log_probabilities: Vec<f32> = row
                .chunks(vocab_size)
                .zip(right)
                .map(|(position, token)| position[token as usize])
                .collect();
            let log_probability = token_log_probabilities
                .iter()
                .fold(0.0, |sum, &x| sum + f64::from(x));
            TargetScore {
                token_log_probabilities,
                log_probability,
            }
        };
        let targets = targets.iter().map(AsRef::as_ref);
        Ok(rows.zip(targets).map(score).collect())
    }

    /// What each target token was made from: the cross-attention weights of the step that
    /// produces it, mean over the heads of decoder layer `layer`.
    ///
    /// The output has, for each target, one row for each of its tokens; a row has one weight for
    /// each token of the source, and they sum to 1.
    ///
    /// # Errors
    ///
    /// No pair at all, or sequences that the model cannot take.
    ///
    /// # Panics
    ///
    /// If there is not one target for each source, or no such layer.
    pub fn align(
        &self,
        sources: &[impl AsRef<[u32]>],
        targets: &[impl AsRef<[u32]>],
        bos_id: u32,
        layer: usize,
    ) -> Result<Vec<Vec<Vec<f32>>>, GenerateError> {
        let n_layers = self.decoder.layers.len();
        assert!(
            layer < n_layers,
            "layer {layer} of a decoder with {n_layers} layers"
        );
        let inputs = self.shifted(sources, targets, bos_id, false)?;
        let device = self.decoder.input.table().device();
        let memory = self.encode_checked(sources)?;
        let ids = pad_sequences(&inputs, self.pad_id(), &device);
        let x = self.decoder.input.forward(ids, 0);
        let (_, trace) = self.decoder.forward_traced(x, &memory);
        let weights = trace[layer].cross_attention.clone();
        let weights: Tensor<4> = weights.expect("this decoder has a memory");
        let [_, _, length, width] = weights.dims();
        let data = weights.mean_dim(1).into_data();
        let weights: Vec<f32> = data.iter::<f32>().collect();
        let pairs = sources.iter().zip(&inputs);
        let align = |(rows, (source, input)): (&[f32], (&_, &Vec<u32>))| {
            let source: &[u32] = AsRef::as_ref(source);
            let rows = rows.chunks(width).take(input.len());
            rows.map(|row| row[..source.len()].to_vec()).collect()
        };
        Ok(weights
            .chunks(length * width)
            .zip(pairs)
            .map(align)
            .collect())
    }

    /// What the decoder reads to predict the targets and their end.
    fn shifted(
        &self,
        sources: &[impl AsRef<[u32]>],
        targets: &[impl AsRef<[u32]>],
        bos_id: u32,
        with_end: bool,
    ) -> Result<Vec<Vec<u32>>, InputError> {
        assert_eq!(
            sources.len(),
            targets.len(),
            "there are {} sources, but {} targets",
            sources.len(),
            targets.len()
        );
        let shifted = |target: &_| {
            let target: &[u32] = AsRef::as_ref(target);
            let mut input = Vec::with_capacity(target.len() + 1);
            input.push(bos_id);
            input.extend_from_slice(target);
            if !with_end {
                input.pop();
            }
            input
        };
        let inputs: Vec<Vec<u32>> = targets.iter().map(shifted).collect();
        let max_len = self.decoder.max_len().unwrap_or(usize::MAX);
        check_sequences(&inputs, self.decoder.vocab_size(), max_len)?;
        Ok(inputs)
    }
}
