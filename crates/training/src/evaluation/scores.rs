//! All scores of a model on held-out examples.

use transformer::Transformer;
use transformer::generate::GenerateError;

use super::{decode_greedily, exact_match, teacher_forced};
use crate::collective::Collective;
use crate::data::{Dataset, Decoded, Example, TextScores};

/// Scores of a model on held-out examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Mean loss per token, in nats, without label smoothing.
    pub loss: f64,
    /// Fraction of tokens whose most likely prediction is correct, given the correct tokens before
    /// them.
    pub token_accuracy: f64,
    /// Fraction of sequences whose greedily decoded output is correct.
    pub exact_match: f64,
    /// Scores of the greedily decoded texts; `None` if targets are not texts.
    pub texts: Option<TextScores>,
}

impl Scores {
    /// Returns the scores of a model and the greedily decoded outputs. `examples` must be the first
    /// held-out examples of a split, because the reference texts are found by the examples'
    /// indices. The processes of `group` divide the work; [`Alone`](crate::collective::Alone) is
    /// the group of a single process.
    ///
    /// # Errors
    ///
    /// The same as those of [`decode`](super::decode).
    pub fn of(
        model: &Transformer,
        dataset: &dyn Dataset,
        examples: &[Example],
        group: &dyn Collective,
    ) -> Result<(Self, Vec<Decoded>), GenerateError> {
        let score = teacher_forced(model, dataset, examples, None, group);
        let decoded = decode_greedily(model, dataset, examples, group)?;
        let scores = Self {
            loss: score.loss,
            token_accuracy: score.token_accuracy,
            exact_match: exact_match(&decoded),
            texts: dataset.scorer().text_scores(&decoded),
        };
        Ok((scores, decoded))
    }
}
