//! Progress over items, such as lines of an input.

use std::time::Instant;

use indicatif::ProgressBar;

use super::status::Status;

/// Number of items done, and how many per second.
pub struct LineProgress {
    status: Status,
    /// Name of the items, such as "lines".
    pub(super) what: String,
    count: usize,
    begun: Instant,
}

impl LineProgress {
    /// Begins to count items of a kind, such as "lines".
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            status: Status::new(ProgressBar::new_spinner, "{spinner} {msg}"),
            what: what.into(),
            count: 0,
            begun: Instant::now(),
        }
    }

    /// Adds items that are done.
    pub fn add(&mut self, count: usize) {
        self.count += count;
        let rate = self.count as f64 / self.begun.elapsed().as_secs_f64();
        let state = || format!("{} {}, {rate:.0} a second", self.count, self.what);
        let show = |bar: &ProgressBar| {
            bar.set_message(state());
            bar.tick();
        };
        self.status.update(show, state);
    }
}
