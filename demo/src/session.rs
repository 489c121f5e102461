//! A model that is trained on the page.

use anyhow::{Result, anyhow};
use serde::Serialize;
use serde_json::Value;
use training::config::file;
use training::trainer::Stepper;

use crate::source::{Look, device};

/// The results of one training step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Number of the step, counted from 1.
    pub step: usize,
    /// Mean loss per token, in nats.
    pub loss: f32,
    /// Learning rate.
    pub learning_rate: f64,
    /// Number of target tokens, without padding.
    pub tokens: usize,
    /// Whether an evaluation is due, because `step` is a multiple of the setting `evaluation.every`
    /// (100 if it is `null`).
    pub is_evaluated: bool,
}

/// Scores on the validation split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Mean loss per token, in nats.
    pub loss: f64,
    /// Fraction of sequences whose greedily decoded output is correct.
    pub exact_match: f64,
}

/// A model in training.
pub struct Session {
    stepper: Stepper,
    evaluate_every: usize,
}

impl Session {
    /// Creates a model and its training.
    ///
    /// `settings` is JSON as in a run's `config.json`; missing settings have the defaults of the
    /// task.
    ///
    /// # Errors
    ///
    /// If `settings` is not JSON, a setting is not valid, or the task reads files. The message
    /// names a setting that is not valid, such as `model.n_heads`.
    pub fn new(settings: &str) -> Result<Self> {
        let settings: Value = serde_json::from_str(settings)?;
        let mut config = file::over_defaults(settings).map_err(|what| anyhow!(what))?;
        config.execution.backend = "flex".into();
        Ok(Self {
            evaluate_every: config.evaluation.every.unwrap_or(100),
            stepper: Stepper::new(config, &device())?,
        })
    }

    /// Takes the next step, or returns `None` after the last step.
    ///
    /// # Errors
    ///
    /// If the loss is not finite.
    pub fn step(&mut self) -> Result<Option<Step>> {
        if self.stepper.steps() == self.stepper.config().optimization.steps {
            return Ok(None);
        }
        let taken = self.stepper.step();
        let step = self.stepper.steps();
        let loss: f32 = taken.loss.into_scalar();
        if !loss.is_finite() {
            let rate = taken.learning_rate;
            return Err(anyhow!(
                "the loss is {loss} at step {step}, with learning rate {rate:.1e}: use a lower one"
            ));
        }
        Ok(Some(Step {
            step,
            loss,
            learning_rate: taken.learning_rate,
            tokens: taken.tokens,
            is_evaluated: step.is_multiple_of(self.evaluate_every),
        }))
    }

    /// Returns the scores of the model on the validation split.
    ///
    /// # Errors
    ///
    /// If the logits are not finite.
    pub fn evaluate(&self) -> Result<Evaluation> {
        let (scores, _) = self.stepper.evaluate()?;
        Ok(Evaluation {
            loss: scores.loss,
            exact_match: scores.exact_match,
        })
    }

    /// Returns the output and the attention weights for a source.
    ///
    /// # Errors
    ///
    /// If the source cannot be used, or the logits are not finite; see [`Look::of`].
    pub fn look(&self, source: &str) -> Result<Look> {
        let model = self.stepper.model();
        Look::of(
            &model,
            self.stepper.config(),
            self.stepper.dataset(),
            source,
        )
    }

    /// Returns the whole configuration as JSON, which `train fit --config` reads.
    ///
    /// # Errors
    ///
    /// Never, because a configuration can always be written as JSON.
    pub fn config(&self) -> Result<String> {
        Ok(serde_json::to_string(self.stepper.config())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
        "data": {"task": "sort", "symbols": 9, "max_length": 5},
        "model": {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1},
        "optimization": {"steps": 3, "batch_size": 4},
        "evaluation": {"every": 2, "validation_size": 5}
    }"#;

    #[test]
    fn a_session_takes_its_steps_and_ends() {
        let mut session = Session::new(SMALL).unwrap();
        let mut evaluated = Vec::new();
        while let Some(step) = session.step().unwrap() {
            assert!(step.loss > 0.0 && step.tokens > 0);
            evaluated.push(step.is_evaluated);
        }
        assert_eq!(evaluated, [false, true, false]);
        assert!(session.evaluate().unwrap().loss > 0.0);
        let again = Session::new(&session.config().unwrap()).unwrap();
        assert_eq!(again.config().unwrap(), session.config().unwrap());
    }

    #[test]
    fn symbols_are_compared_with_the_correct_ones() {
        let look = Session::new(SMALL).unwrap().look("3 1 2").unwrap();
        assert_eq!(look.source, ["3", "1", "2"]);
        let correct = look.compared.iter().filter_map(|one| one.correct.clone());
        let correct: Vec<String> = correct.filter(|text| !text.is_empty()).collect();
        assert_eq!(correct, ["1", "2", "3"]);
        assert_eq!(look.read[0], "<bos>");
        let rows = look.read.len();
        assert!([rows, rows - 1].contains(&look.written.len()));
        let map = &look.maps.cross[0][1];
        assert_eq!((map.len(), map[0].len()), (rows, 3));
        let sum: u16 = map[0].iter().sum();
        assert!((998..=1002).contains(&sum));
        assert_eq!(look.maps.encoder[0][0].len(), 3);
        assert_eq!(look.maps.decoder[0][0][0][1..], vec![0; rows - 1]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |settings: &str| Session::new(settings).err().unwrap().to_string();
        let heads = error(r#"{"model": {"n_heads": 3}}"#);
        assert!(heads.starts_with("model.n_heads 3: must"), "{heads}");
        let unknown = error(r#"{"model": {"heads": 3}}"#);
        assert!(
            unknown.starts_with("model.heads: is not a setting"),
            "{unknown}"
        );
        let session = Session::new(SMALL).unwrap();
        let error = |source: &str| session.look(source).err().unwrap().to_string();
        assert_eq!(error(""), "type at least one symbol");
        assert!(error("1 10").starts_with("\"10\" is not a symbol"));
        assert!(error("1 2 3 4 5 6").ends_with("the model has learned at most 5"));
    }

    #[test]
    fn both_numbers_of_an_addition_may_be_long() {
        let sums = SMALL.replace(
            r#""sort", "symbols": 9, "max_length": 5"#,
            r#""add", "max_digits": 4"#,
        );
        let session = Session::new(&sums).unwrap();
        assert!(session.look("1 2 3 4 + 5 6 7 8").is_ok());
        let error = session.look("1 2 3 4 + 5 6 7 8 9").err().unwrap();
        assert!(
            error
                .to_string()
                .ends_with("the model has learned at most 9")
        );
    }
}
