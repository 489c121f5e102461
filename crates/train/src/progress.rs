//! What one sees while it trains: a bar on a terminal, else a line every few seconds. Always on
//! stderr.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Time between two lines where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Steps, loss, tokens a second and time left.
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: usize,
    begun: Instant,
    last_line: Instant,
    tokens: usize,
}

impl Progress {
    /// Begins to count.
    pub fn new(steps: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = "step {pos}/{len} [{wide_bar}] {msg}, {eta} left";
            let style = ProgressStyle::with_template(style).expect("the template is right");
            ProgressBar::new(steps as u64).with_style(style.progress_chars("=> "))
        });
        let now = Instant::now();
        Self {
            bar,
            steps,
            begun: now,
            last_line: now,
            tokens: 0,
        }
    }

    /// Counts a step of so many target tokens; `loss` is the last one known.
    pub fn step(&mut self, step: usize, tokens: usize, loss: Option<f32>) {
        self.tokens += tokens;
        let seconds = self.begun.elapsed().as_secs_f64();
        if let Some(bar) = &self.bar {
            bar.set_position(step as u64);
            bar.set_message(self.state(seconds, loss));
        } else if self.last_line.elapsed() >= LINE_EVERY {
            output::note(&self.line(step, seconds, loss));
            self.last_line = Instant::now();
        }
    }

    fn state(&self, seconds: f64, loss: Option<f32>) -> String {
        let loss = loss.map_or("-".into(), |loss| format!("{loss:.4}"));
        format!("loss {loss}, {:.0} tokens/s", self.tokens as f64 / seconds)
    }

    fn line(&self, step: usize, seconds: f64, loss: Option<f32>) -> String {
        let left = seconds / step as f64 * (self.steps - step) as f64;
        let state = self.state(seconds, loss);
        format!("step {step}/{}, {state}, {left:.0}s left", self.steps)
    }

    /// Prints a result without breaking the bar.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    pub fn result(&self, line: &str) -> Result<()> {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::result(line)),
            None => output::result(line),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Lines answered, and how many a second.
pub struct LineProgress {
    bar: Option<ProgressBar>,
    is_interactive: bool,
    begun: Instant,
    last_line: Instant,
    lines: u64,
}

impl LineProgress {
    /// Begins to count, in silence where somebody types the lines.
    pub fn new(is_interactive: bool) -> Self {
        let is_shown = !is_interactive && std::io::stderr().is_terminal();
        let now = Instant::now();
        Self {
            bar: is_shown.then(|| {
                let style = ProgressStyle::with_template("{spinner} {msg}");
                ProgressBar::new_spinner().with_style(style.expect("the template is right"))
            }),
            is_interactive,
            begun: now,
            last_line: now,
            lines: 0,
        }
    }

    /// Counts so many lines and prints their answers without breaking the bar; breaks off where
    /// nobody reads any more.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    pub fn answer(&mut self, lines: usize, answers: &str) -> Result<ControlFlow<()>> {
        self.lines += lines as u64;
        if let Some(bar) = &self.bar {
            bar.set_message(self.state());
            bar.tick();
            return bar.suspend(|| output::stream(answers));
        }
        if !self.is_interactive && self.last_line.elapsed() >= LINE_EVERY {
            output::note(&self.state());
            self.last_line = Instant::now();
        }
        output::stream(answers)
    }

    /// Tells the user something without breaking the bar.
    pub fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(line)),
            None => output::note(line),
        }
    }

    fn state(&self) -> String {
        let rate = self.lines as f64 / self.begun.elapsed().as_secs_f64();
        format!("{} lines, {rate:.0} lines/s", self.lines)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_step_loss_speed_and_time_left() {
        let mut progress = Progress::new(100);
        progress.tokens = 3000;
        let line = progress.line(25, 2.0, Some(0.123_45));
        assert_eq!(line, "step 25/100, loss 0.1235, 1500 tokens/s, 6s left");
        assert!(progress.line(1, 2.0, None).contains("loss -"));
    }
}
