//! Texts that show a training run without the dashboard.

use std::time::Instant;

use training::run::{Evaluation, MetricsLine};

use super::live_run::LiveRun;
use crate::metric;

/// Returns the steps, the loss, the tokens per second and the time left of a run.
pub(super) fn state(run: &LiveRun, now: Instant) -> String {
    let [loss, speed] = ["loss", "tokens_per_second"].map(|field| run.newest(field));
    let (step, steps, left) = (run.step, run.steps, run.time_left(now));
    format!("step {step}/{steps}, loss {loss}, {speed} tokens/s, {left} left")
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
        assert_eq!(
            state(&run, run.begun),
            "step 0/1000, loss -, - tokens/s, - left"
        );
        run = dashboard::tests::run(500);
        let state = state(&run, run.begun);
        let begin = "step 500/1000, loss 0.00800, 500 tokens/s, ";
        assert!(state.starts_with(begin), "{state}");
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
