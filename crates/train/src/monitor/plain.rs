//! A bar on a terminal, else a line every few seconds; on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Monitor, line};
use crate::output;
use crate::run_folder::{Evaluation, StepMetrics};

/// Time between two lines where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Steps, loss, tokens a second and time left.
pub struct Plain {
    bar: Option<ProgressBar>,
    first: usize,
    steps: usize,
    begun: Instant,
    last_line: Instant,
    tokens: usize,
    loss: Option<f32>,
}

impl Plain {
    /// Begins to count, after `first` steps.
    pub fn new(first: usize, steps: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = "step {pos}/{len} [{wide_bar}] {msg}, {eta} left";
            let style = ProgressStyle::with_template(style).expect("the template is right");
            ProgressBar::new(steps as u64)
                .with_position(first as u64)
                .with_style(style.progress_chars("=> "))
        });
        let now = Instant::now();
        Self {
            bar,
            first,
            steps,
            begun: now,
            last_line: now,
            tokens: 0,
            loss: None,
        }
    }

    fn state(&self, seconds: f64) -> String {
        let loss = self.loss.map_or("-".into(), |loss| format!("{loss:.4}"));
        format!("loss {loss}, {:.0} tokens/s", self.tokens as f64 / seconds)
    }

    fn line(&self, step: usize, seconds: f64) -> String {
        let left = seconds / (step - self.first) as f64 * (self.steps - step) as f64;
        let state = self.state(seconds);
        format!("step {step}/{}, {state}, {left:.0}s left", self.steps)
    }
}

impl Monitor for Plain {
    fn step(&mut self, step: usize, tokens: usize, _: Duration) {
        self.tokens += tokens;
        let seconds = self.begun.elapsed().as_secs_f64();
        if let Some(bar) = &self.bar {
            bar.set_position(step as u64);
            bar.set_message(self.state(seconds));
        } else if self.last_line.elapsed() >= LINE_EVERY {
            output::note(&self.line(step, seconds));
            self.last_line = Instant::now();
        }
    }

    fn metrics(&mut self, metrics: &StepMetrics) {
        self.loss = Some(metrics.loss);
    }

    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
        let line = line(evaluation);
        match &self.bar {
            Some(bar) => bar.suspend(|| output::result(&line)),
            None => output::result(&line),
        }
    }

    fn note(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(line)),
            None => output::note(line),
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_step_loss_speed_and_time_left() {
        let mut plain = Plain::new(0, 100);
        assert!(plain.line(1, 2.0).contains("loss -"));
        plain.tokens = 3000;
        plain.loss = Some(0.123_45);
        let line = plain.line(25, 2.0);
        assert_eq!(line, "step 25/100, loss 0.1235, 1500 tokens/s, 6s left");
        // A resumed run knows its own speed only.
        plain.first = 75;
        let line = plain.line(80, 2.0);
        assert_eq!(line, "step 80/100, loss 0.1235, 1500 tokens/s, 8s left");
    }
}
