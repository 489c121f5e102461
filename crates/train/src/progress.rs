//! What one sees while a model answers: how many lines, and how fast. Always on stderr.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Time between two lines where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Lines answered, and how many a second.
pub struct LineProgress {
    bar: Option<ProgressBar>,
    is_interactive: bool,
    begun: Instant,
    last_line: Instant,
    lines: u64,
    what: &'static str,
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
            what: "lines",
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

    /// Counts so many things, of which nothing is printed.
    pub fn count(&mut self, what: &'static str, n: usize) {
        self.what = what;
        self.lines += n as u64;
        if let Some(bar) = &self.bar {
            bar.set_message(self.state());
            bar.tick();
        } else if self.last_line.elapsed() >= LINE_EVERY {
            output::note(&self.state());
            self.last_line = Instant::now();
        }
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
        format!("{} {}, {rate:.0} a second", self.lines, self.what)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
