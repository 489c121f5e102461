//! How a run is judged: on the validation split on its way, on the test split at its end.

use anyhow::Result;
use burn::module::Module;
use transformer::Transformer;

use super::{BestBy, Outcome, Run};
use crate::checkpoint;
use crate::evaluate::{self, TeacherForced};
use crate::memory::peak_rss_bytes;
use crate::output;
use crate::run_folder::{Evaluation, Summary};
use crate::task::{Example, Split};

impl Run<'_> {
    /// Whether this evaluation is the best so far, and whether training has come to its end.
    pub(super) fn evaluate(&mut self) -> Result<(bool, bool)> {
        self.read_losses()?;
        let config = self.config;
        let model = self.evaluated_model();
        let score = self.score(&model, &self.validation);
        let decoded = evaluate::decode_greedily(&model, self.task, &self.validation);
        let exact_match = evaluate::exact_match(&decoded);
        let texts = evaluate::text_scores(self.task, &decoded);
        let evaluation = Evaluation {
            step: self.state.step,
            valid_loss: score.loss,
            token_accuracy: score.token_accuracy,
            exact_match: (!self.task.is_text()).then_some(exact_match),
            bleu: texts.map(|scores| scores.bleu),
            chrf: texts.map(|scores| scores.chrf),
        };
        self.folder.log(&evaluation)?;
        if let Err(error) = self.monitor.evaluation(&evaluation) {
            self.save()?;
            return Err(error);
        }
        let value = match config.best_by {
            BestBy::Loss => score.loss,
            BestBy::ExactMatch => exact_match,
            BestBy::Bleu => texts.map_or(0.0, |scores| scores.bleu),
        };
        let is_best = self.state.evaluated(config.best_by, value);
        let is_reached = config.target.is_some_and(|target| exact_match >= target);
        let is_stuck = config
            .patience
            .is_some_and(|patience| self.state.since_best >= patience);
        if is_stuck {
            let best = self.state.best.map_or(0, |best| best.step);
            self.monitor.note(&format!(
                "no better evaluation since step {best}: training ends"
            ));
        }
        Ok((is_best, is_reached || is_stuck))
    }

    /// The moving average where there is one.
    fn evaluated_model(&self) -> Transformer {
        let model = match &self.average {
            Some(average) => average.module(self.learner.model()),
            None => self.learner.model().valid(),
        };
        self.config.precision.computing(&model)
    }

    fn score(&self, model: &Transformer, examples: &[Example]) -> TeacherForced {
        evaluate::teacher_forced(model, self.task, examples, None, &self.device)
    }

    /// Evaluates on the test split.
    pub(super) fn finish(self) -> Result<Outcome> {
        let config = self.config;
        let test = self
            .task
            .held_out(config.seed, Split::Test, config.test_size);
        let model = match self.best_model() {
            Ok(Some(best)) => best,
            Ok(None) => self.evaluated_model(),
            Err(error) => {
                let how = "the last model takes the place of the best one";
                output::note(&format!("warning: {error}; {how}"));
                self.evaluated_model()
            }
        };
        let decoded = evaluate::decode_greedily(&model, self.task, &test);
        let train_seconds = self.state.train_seconds;
        let texts = evaluate::text_scores(self.task, &decoded);
        let score = self.score(&model, &test);
        let summary = Summary {
            task: config.task.name().into(),
            backend: config.backend.clone(),
            parameters: model.num_params(),
            steps: self.state.step,
            train_seconds,
            exact_match: evaluate::exact_match(&decoded),
            test_sequences: decoded.len(),
            token_accuracy: score.token_accuracy,
            valid_loss: match self.task.is_text() {
                // The same pairs.
                true => score.loss,
                false => self.score(&model, &self.validation).loss,
            },
            bleu: texts.map(|scores| scores.bleu),
            chrf: texts.map(|scores| scores.chrf),
            data_wait: match train_seconds - self.seconds_before {
                0.0 => 0.0,
                seconds => self.waited.as_secs_f64() / seconds,
            },
            tokens_per_second: self.state.tokens as f64 / train_seconds,
            peak_rss_bytes: peak_rss_bytes(),
            seed: config.seed,
            version: env!("CARGO_PKG_VERSION"),
        };
        Ok(Outcome {
            summary,
            decoded,
            model,
            folder: self.folder,
        })
    }

    /// The best model, if training ended because nothing better came.
    fn best_model(&self) -> Result<Option<Transformer>> {
        let Some(best) = self.state.best else {
            return Ok(None);
        };
        let is_stuck = self
            .config
            .patience
            .is_some_and(|patience| self.state.since_best >= patience);
        if !is_stuck {
            return Ok(None);
        }
        let files = self.checkpoints.read(best.step)?;
        let name = match self.average {
            Some(_) => checkpoint::AVERAGE,
            None => checkpoint::MODEL,
        };
        let parameters = checkpoint::read_parameters(&files, name)?;
        let model = self.learner.model().valid();
        let model = checkpoint::with_parameters(&model, parameters, &files.path(name))?;
        Ok(Some(self.config.precision.computing(&model)))
    }
}
