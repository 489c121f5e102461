//! What one sees while it trains: a bar on a terminal, else a line every few seconds. Always on
//! stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

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
        let message = || {
            let loss = loss.map_or("-".into(), |loss| format!("{loss:.4}"));
            let speed = self.tokens as f64 / self.begun.elapsed().as_secs_f64();
            format!("loss {loss}, {speed:.0} tokens/s")
        };
        if let Some(bar) = &self.bar {
            bar.set_position(step as u64);
            bar.set_message(message());
        } else if self.last_line.elapsed() >= LINE_EVERY {
            let left =
                self.begun.elapsed().as_secs_f64() / step as f64 * (self.steps - step) as f64;
            eprintln!("step {step}/{}, {}, {left:.0}s left", self.steps, message());
            self.last_line = Instant::now();
        }
    }

    /// Prints a line on stdout without breaking the bar.
    pub fn println(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{line}")),
            None => println!("{line}"),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
