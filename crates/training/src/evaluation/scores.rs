//! All scores of a model on held-out examples, and those of the trained model at the end of a run.

use transformer::Transformer;
use transformer::generate::GenerateError;

use super::{decode_greedily, exact_match, teacher_forced};
use crate::collective::Collective;
use crate::config::RunConfig;
use crate::data::{Dataset, Decoded, Example, Split, TextScores};

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
    /// indices. The processes of `group` divide the work.
    ///
    /// # Errors
    ///
    /// The same as those of [`decode`](super::decode).
    pub(crate) fn of(
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
            texts: dataset.text_scores(&decoded),
        };
        Ok((scores, decoded))
    }
}

/// Results of the final evaluation of a trained model.
#[derive(Clone, Debug, PartialEq)]
pub struct TestResult {
    /// Split of the scored examples: [`Split::Validation`] if the data set has no test split.
    pub split: Split,
    /// Greedily decoded outputs of the examples.
    pub decoded: Vec<Decoded>,
    /// Scores of the model on the split.
    pub scores: Scores,
    /// Mean loss per token on the validation split, in nats, without label smoothing.
    pub valid_loss: f64,
}

/// Evaluates a trained model on the test split of its run, and measures its loss on the validation
/// split. A data set without a test split is evaluated on its validation split. The processes of
/// `group` divide the work.
///
/// # Errors
///
/// The same as those of [`decode`](super::decode).
pub(crate) fn test(
    model: &Transformer,
    dataset: &dyn Dataset,
    config: &RunConfig,
    group: &dyn Collective,
) -> Result<TestResult, GenerateError> {
    let (seed, sizes) = (config.seed, &config.evaluation);
    let of = |split, size| dataset.held_out(seed, split, size);
    let validation = of(Split::Validation, sizes.validation_size);
    let tests = of(Split::Test, sizes.test_size);
    let (split, examples) = if tests == of(Split::Validation, sizes.test_size) {
        (Split::Validation, validation.clone())
    } else {
        (Split::Test, tests)
    };
    let (scores, decoded) = Scores::of(model, dataset, &examples, group)?;
    let valid_loss = if validation == examples {
        scores.loss
    } else {
        teacher_forced(model, dataset, &validation, None, group).loss
    };
    Ok(TestResult {
        split,
        decoded,
        scores,
        valid_loss,
    })
}

/// Rounds a share to four decimal places, so that only a perfect one becomes 1.
pub fn rounded(share: f64) -> f64 {
    let most = if share < 1.0 - 1e-9 { 0.9999 } else { f64::MAX };
    ((share * 1e4).round() / 1e4).min(most)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::collective::Alone;

    #[test]
    fn the_final_evaluation_scores_both_splits() {
        let mut config = RunConfig::copy();
        config.model = config.model.with_d_model(8).with_d_ff(8);
        config.evaluation.test_size = 9;
        config.evaluation.validation_size = 7;
        let dataset = config.check().unwrap().unwrap();
        let dataset = dataset.as_ref();
        let device = Device::flex();
        let model = config.model.init_seeded(1, &device).unwrap();
        let result = test(&model, dataset, &config, &Alone).unwrap();

        let held_out = |split, n| dataset.held_out(config.seed, split, n);
        let [tests, validation] =
            [(Split::Test, 9), (Split::Validation, 7)].map(|(split, n)| held_out(split, n));
        let score = |examples| teacher_forced(&model, dataset, examples, None, &Alone);
        let decoded = decode_greedily(&model, dataset, &tests, &Alone).unwrap();
        assert_eq!(result.scores.exact_match, exact_match(&decoded));
        assert_eq!(result.decoded, decoded);
        assert_eq!((result.split, result.decoded.len()), (Split::Test, 9));
        assert_eq!(result.scores.token_accuracy, score(&tests).token_accuracy);
        assert_eq!(result.valid_loss, score(&validation).loss);
        assert_ne!(result.valid_loss, score(&tests).loss);
        assert_eq!(result.scores.texts, None);
    }
}
