//! Loss and accuracy of next-token predictions, given the correct tokens before each token.

use burn::module::Module;
use serde::Serialize;
use transformer::{CrossEntropy, Transformer};

use super::batches::batches;
use crate::collective::Collective;
use crate::data::{Batch, Dataset, Example};

/// Scores of a model that predicts each token from the correct tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TeacherForced {
    /// Mean cross-entropy per token, in nats, without label smoothing.
    pub loss: f64,
    /// Fraction of tokens whose most likely prediction is correct.
    pub token_accuracy: f64,
    /// Number of tokens, without padding.
    pub tokens: usize,
}

/// Scores a model on the targets of examples, without dropout.
///
/// `batch_size` is the number of sequences per forward pass; `None` chooses the number by the
/// lengths of the sequences. The processes of `group` divide the batches, and all of them get the
/// scores.
pub fn teacher_forced(
    model: &Transformer,
    dataset: &dyn Dataset,
    examples: &[Example],
    batch_size: Option<usize>,
    group: &dyn Collective,
) -> TeacherForced {
    let model = model.valid();
    let device = model.devices().remove(0);
    let vocabularies = dataset.codec().vocabularies();
    let criterion = CrossEntropy::new(0.0).expect("0 is a valid smoothing");
    let (mut loss, mut correct, mut tokens) = (0.0, 0, 0);
    for indices in batches(examples, vocabularies.target_size, batch_size, group) {
        let chunk: Vec<&Example> = indices.iter().map(|&index| &examples[index]).collect();
        let batch = Batch::new(&chunk, &device);
        let logits = model.forward(batch.source, Some(&batch.source_mask), batch.target);
        let [rows, length, _] = logits.dims();
        let best = logits.clone().argmax(2).reshape([rows, length]);
        // No prediction is an ignored label, which is negative.
        let is_correct = best.equal(batch.labels.clone());
        correct += is_correct.int().sum().into_scalar::<i64>();
        let sum = criterion.sum(logits, batch.labels).sum;
        loss += f64::from(sum.into_scalar::<f32>());
        tokens += batch.tokens;
    }
    let [loss, correct, tokens] = group.sum_f64([loss, correct as f64, tokens as f64]);
    TeacherForced {
        loss: loss / tokens,
        token_accuracy: correct / tokens,
        tokens: tokens as usize,
    }
}
