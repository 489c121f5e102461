//! The interface between training or evaluation and a model.

use burn::module::Module;
use burn::tensor::Tensor;
use transformer::generate::{GenerateConfig, GenerateError, Hypothesis};
use transformer::loss::LossSum;
use transformer::{CrossEntropy, Transformer};

use crate::data::Batch;

/// A model that predicts target sequences from source sequences.
pub trait SequenceModel: Module + Sync {
    /// Returns the logits of the next token at every target position.
    ///
    /// # Shapes
    ///
    /// - batch: sources `[B, S]`, targets `[B, T]`, as in [`Batch`]
    /// - output: `[B, T, V]`, where `V` is the size of the target vocabulary
    fn logits(&self, batch: &Batch) -> Tensor<3>;

    /// Returns the sums of the losses of all labels that are not padding.
    ///
    /// `chunk` is the number of tokens whose logits are held in memory at a time; `None` for all
    /// tokens. A model that cannot divide the logits may ignore `chunk`.
    fn loss(&self, batch: Batch, criterion: &CrossEntropy, chunk: Option<usize>) -> LossSum;

    /// Returns the hypotheses for each source, the best first. Each begins with the token ids
    /// `prefix`.
    ///
    /// # Errors
    ///
    /// If there is no source, if the model cannot process a source or `prefix`, if a setting is not
    /// valid, or if the logits are not finite.
    fn generate(
        &self,
        sources: &[&[u32]],
        prefix: &[u32],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError>;
}

impl SequenceModel for Transformer {
    fn logits(&self, batch: &Batch) -> Tensor<3> {
        let (source, target) = (batch.source.clone(), batch.target.clone());
        self.forward(source, Some(&batch.source_mask), target)
    }

    fn loss(&self, batch: Batch, criterion: &CrossEntropy, chunk: Option<usize>) -> LossSum {
        let Batch {
            source,
            source_mask,
            target,
            labels,
            ..
        } = batch;
        let mask = Some(&source_mask);
        Self::loss(self, source, mask, target, labels, criterion, chunk)
    }

    fn generate(
        &self,
        sources: &[&[u32]],
        prefix: &[u32],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        self.complete(sources, &vec![prefix; sources.len()], config)
    }
}
