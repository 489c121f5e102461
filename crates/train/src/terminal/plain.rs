//! Shows a training run as a progress bar, or as lines.

use std::time::Instant;

use indicatif::ProgressBar;
use training::run::{Evaluation, MetricsLine};

use super::live_run::LiveRun;
use super::status::Status;
use crate::metric;

/// Display of the steps, the loss, the tokens per second and the time left of a run.
pub(super) struct Plain(Status);

impl Plain {
    /// Begins to show a run.
    pub(super) fn new(run: &LiveRun) -> Self {
        let bar = || ProgressBar::new(run.steps as u64).with_position(run.step as u64);
        Self(Status::new(bar, "step {pos}/{len} [{wide_bar}] {msg}"))
    }

    /// Updates the display after a step.
    pub(super) fn update(&mut self, run: &LiveRun) {
        let state = state(run, Instant::now());
        let line = format!("step {}/{}, {state}", run.step, run.steps);
        let show = |bar: &ProgressBar| {
            bar.set_position(run.step as u64);
            bar.set_message(state);
        };
        self.0.update(show, || line);
    }
}

fn state(run: &LiveRun, now: Instant) -> String {
    let [loss, speed] = ["loss", "tokens_per_second"].map(|field| run.newest(field));
    format!("loss {loss}, {speed} tokens/s, {} left", run.time_left(now))
}

/// Returns the line that reports an evaluation.
pub(super) fn line(evaluation: &Evaluation) -> String {
    let line = MetricsLine::of(evaluation);
    let fields = ["valid_loss", "exact_match", "bleu", "chrf"].into_iter();
    let items = fields.filter_map(|field| Some(metric::named(field, line.number(field)?)));
    let items: Vec<String> = items.collect();
    format!("step {}: evaluation {}", line.step, items.join(", "))
}

#[cfg(test)]
mod tests {
    use training::run::Curves;

    use super::super::dashboard;
    use super::*;

    #[test]
    fn the_state_has_loss_speed_and_time_left() {
        let mut run = LiveRun::new(0, 1000, &Curves::default());
        assert_eq!(state(&run, run.begun), "loss -, - tokens/s, - left");
        run = dashboard::tests::run(500);
        let state = state(&run, run.begun);
        assert!(state.starts_with("loss 0.00800, 500 tokens/s, "), "{state}");
    }

    #[test]
    fn an_evaluation_has_the_scores_that_were_computed() {
        let mut evaluation = Evaluation {
            step: 20,
            seconds: 1.0,
            valid_loss: 0.123_45,
            token_accuracy: 0.5,
            exact_match: None,
            bleu: None,
            chrf: None,
        };
        assert_eq!(line(&evaluation), "step 20: evaluation loss 0.1235");
        evaluation.exact_match = Some(0.25);
        assert!(line(&evaluation).ends_with(", exact match 0.2500"));
    }
}
