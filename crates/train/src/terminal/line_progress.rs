//! Shows the number of processed items, such as lines of an input.

use std::time::Instant;

use indicatif::ProgressBar;

use super::status::Status;

/// Display of the number of processed items, and of items per second.
pub struct LineProgress {
    status: Status,
    /// Name of the items, such as "lines".
    pub(super) what: String,
    count: usize,
    begun: Instant,
}

impl LineProgress {
    /// Begins to count the items that `what` names, such as "lines".
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            status: Status::new(ProgressBar::new_spinner, "{spinner} {msg}"),
            what: what.into(),
            count: 0,
            begun: Instant::now(),
        }
    }

    /// Adds `count` processed items, and updates the display.
    pub fn add(&mut self, count: usize) {
        self.count += count;
        let rate = self.count as f64 / self.begun.elapsed().as_secs_f64();
        let digits = usize::from(rate < 10.0);
        let state = || format!("{} {}, {rate:.digits$} a second", self.count, self.what);
        let show = |bar: &ProgressBar| {
            bar.set_message(state());
            bar.tick();
        };
        self.status.update(show, state);
    }
}
