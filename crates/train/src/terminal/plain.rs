//! Shows a training run as a progress bar, or as lines.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use training::run::{Evaluation, Event, MetricsLine};

use super::status::Status;
use crate::metric;
use crate::number::{clock, short};

/// Display of the steps, the loss, the tokens per second and the time left of a run.
pub(super) struct Plain {
    status: Status,
    first: usize,
    steps: usize,
    begun: Instant,
    tokens: usize,
    /// The smallest possible training loss, which is subtracted from it.
    floor: f64,
    loss: Option<f64>,
}

impl Plain {
    /// Begins to show a run that has taken `first` of `steps` steps.
    pub(super) fn new(first: usize, steps: usize, floor: f64) -> Self {
        let bar = || ProgressBar::new(steps as u64).with_position(first as u64);
        Self {
            status: Status::new(bar, "step {pos}/{len} [{wide_bar}] {msg}, {eta} left"),
            first,
            steps,
            begun: Instant::now(),
            tokens: 0,
            floor,
            loss: None,
        }
    }

    /// Updates the display after an event.
    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Step { step, tokens, .. } => self.step(step, tokens),
            Event::Metrics(metrics) => self.loss = Some(f64::from(metrics.loss) - self.floor),
            _ => {}
        }
    }

    fn step(&mut self, step: usize, tokens: usize) {
        self.tokens += tokens;
        let seconds = self.begun.elapsed().as_secs_f64();
        let state = self.state(seconds);
        let line = self.line(step, seconds);
        let show = |bar: &ProgressBar| {
            bar.set_position(step as u64);
            bar.set_message(state);
        };
        self.status.update(show, || line);
    }

    fn state(&self, seconds: f64) -> String {
        let loss = self.loss.map_or("-".into(), short);
        format!("loss {loss}, {:.0} tokens/s", self.tokens as f64 / seconds)
    }

    fn line(&self, step: usize, seconds: f64) -> String {
        let left = seconds / (step - self.first) as f64 * (self.steps - step) as f64;
        let state = self.state(seconds);
        let left = Duration::try_from_secs_f64(left).map_or("-".into(), clock);
        format!("step {step}/{}, {state}, {left} left", self.steps)
    }
}

/// Returns the line that reports an evaluation.
pub(super) fn line(evaluation: &Evaluation) -> String {
    let line = MetricsLine::of(evaluation, 0.0);
    let fields = ["valid_loss", "exact_match", "bleu", "chrf"].into_iter();
    let items = fields.filter_map(|field| Some(metric::named(field, line.number(field)?)));
    let items: Vec<String> = items.collect();
    format!("step {}: evaluation {}", line.step, items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_step_loss_speed_and_time_left() {
        let mut plain = Plain::new(0, 100, 0.0);
        assert!(plain.line(1, 2.0).contains("loss -"));
        plain.tokens = 3000;
        plain.loss = Some(0.123_45);
        let line = plain.line(25, 2.0);
        assert_eq!(line, "step 25/100, loss 0.1235, 1500 tokens/s, 0:06 left");
        // The time left of a resumed run follows from the steps since it was resumed.
        plain.first = 75;
        let line = plain.line(80, 2.0);
        assert_eq!(line, "step 80/100, loss 0.1235, 1500 tokens/s, 0:08 left");
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
