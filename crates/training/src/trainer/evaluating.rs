//! Evaluations during training, and the decision whether training ends.

use anyhow::Result;
use transformer::generate::GenerateError;

use super::setup::Trainer;
use crate::collective::{check_alike, checksum};
use crate::config::BestBy;
use crate::evaluation::Scores;
use crate::run::{EndReason, Evaluation, Event, Observer};

impl Trainer<'_> {
    /// Evaluates the model on the validation split. Returns whether this evaluation is the best so
    /// far, and the reason if training ends here.
    pub(super) fn evaluate(
        &mut self,
        observer: &mut dyn Observer,
    ) -> Result<(bool, Option<EndReason>)> {
        self.read_losses(observer)?;
        self.check_replicas()?;
        let config = &self.config.evaluation;
        let model = self.learner.evaluated_model();
        let scores = match Scores::of(&model, self.dataset, &self.validation, self.group) {
            Ok((scores, _)) if scores.loss.is_finite() => scores,
            Ok(_) | Err(GenerateError::NotFinite { .. }) => {
                return Err(self.diverged(format!(
                    "the outputs for the validation split are not finite after step {}",
                    self.state.step
                )));
            }
            Err(error) => return Err(error.into()),
        };
        let by = config.decides();
        let evaluation = Evaluation::new(self.state.step, self.state.train_seconds, &scores, by);
        let value = match by {
            BestBy::Loss => scores.loss,
            BestBy::ExactMatch => scores.exact_match,
            BestBy::Bleu => scores.texts.map_or(0.0, |texts| texts.bleu),
        };
        let is_best = self.state.evaluated(by, value, scores.loss);
        self.folder.event(Event::Evaluation(&evaluation))?;
        // If only one process fails, the others must save together with it.
        let told = observer.event(Event::Evaluation(&evaluation));
        if self.group.any(told.is_err()) {
            self.save(observer)?;
            told?;
            anyhow::bail!("another process failed after step {}", self.state.step);
        }
        if is_best {
            self.tell_best(observer)?;
        }
        let exact_match = scores.exact_match;
        let reached = config.target.filter(|&target| exact_match >= target);
        let reached = reached.map(|target| EndReason::TargetReached {
            exact_match,
            target,
            step: self.state.step,
        });
        let since_best = self.state.since_best;
        let patience = config.patience.filter(|&patience| since_best >= patience);
        let out_of_patience = patience.map(|_| EndReason::OutOfPatience {
            best: self.state.best.map_or(0, |best| best.step),
        });
        Ok((is_best, reached.or(out_of_patience)))
    }

    /// Checks that the processes of the group have the same settings and parameters, and have taken
    /// the same number of steps.
    pub(super) fn check_replicas(&self) -> Result<()> {
        if self.group.size() > 1 {
            let parameters = checksum(self.learner.model());
            let facts = [
                ("the checksum of the parameters", parameters),
                ("the step of the checkpoint", self.state.step.into()),
            ];
            check_alike(self.group, self.config, &facts)?;
        }
        Ok(())
    }

    pub(super) fn tell_best(&self, observer: &mut dyn Observer) -> Result<()> {
        let best = self.state.best;
        best.map_or(Ok(()), |best| observer.event(Event::Best(best)))
    }
}
