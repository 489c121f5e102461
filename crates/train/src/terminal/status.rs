//! Shows progress on stderr: a bar on a terminal that can draw it, else a line every few seconds. A
//! quiet program shows neither.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::{capability, output};

/// Minimum time between two lines of progress if there is no progress bar.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A progress display. Dropping it removes the bar.
pub(super) struct Status {
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl Status {
    /// Shows a bar for `total` items, or a spinner if their number is not known, if stderr is a
    /// terminal that can draw it and the program is not quiet.
    pub(super) fn new(total: Option<usize>) -> Self {
        let has_bar = capability::has_bar() && !output::is_quiet();
        let bar = has_bar.then(|| {
            let (bar, template) = match total {
                Some(total) => (ProgressBar::new(total as u64), "[{wide_bar}] {msg}"),
                None => (ProgressBar::no_length(), "{spinner} {msg}"),
            };
            let style = ProgressStyle::with_template(template).expect("the template is valid");
            bar.with_style(style.progress_chars("=> "))
        });
        output::set_bar(bar.clone());
        Self {
            bar,
            last_line: Instant::now(),
        }
    }

    /// Shows that `done` items are done, and the text `state` beside the bar. Without a bar, prints
    /// the text if the last line is older than [`LINE_EVERY`].
    pub(super) fn update(&mut self, done: usize, state: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
            bar.set_message(state());
        } else if self.last_line.elapsed() >= LINE_EVERY {
            output::note(&state());
            self.last_line = Instant::now();
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            output::set_bar(None);
            bar.finish_and_clear();
        }
    }
}
