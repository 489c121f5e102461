//! Shows the number of processed items, such as lines of an input.

use std::time::{Duration, Instant};

use super::status::Status;
use crate::number::{grouped, seconds};

/// Display of the number of processed items, of items per second and, if the total is known, of the
/// time left.
pub struct LineProgress {
    status: Status,
    /// Name of the items, such as "lines".
    pub(super) what: String,
    total: Option<usize>,
    count: usize,
    begun: Instant,
}

impl LineProgress {
    /// Begins to count the items that `what` names, such as "lines". `total` is their number, if it
    /// is known.
    pub fn new(what: impl Into<String>, total: Option<usize>) -> Self {
        Self {
            status: Status::new(total),
            what: what.into(),
            total,
            count: 0,
            begun: Instant::now(),
        }
    }

    /// Adds `count` processed items, and updates the display.
    pub fn add(&mut self, count: usize) {
        self.count += count;
        let time = self.begun.elapsed();
        let state = || state(&self.what, self.count, self.total, time);
        self.status.update(self.count, state);
    }
}

fn state(what: &str, count: usize, total: Option<usize>, time: Duration) -> String {
    let rate = count as f64 / time.as_secs_f64();
    let digits = usize::from(rate < 10.0);
    let speed = format!("{what}, {rate:.digits$} a second");
    let Some(total) = total else {
        return format!("{} {speed}", grouped(count));
    };
    let left = Some(total.saturating_sub(count) as f64 / rate);
    let left = left.filter(|left| left.is_finite());
    let left = left.map_or("-".into(), seconds);
    let (count, total) = (grouped(count), grouped(total));
    format!("{count} of {total} {speed}, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_total_gives_the_time_left() {
        let of = |total| state("lines", 3600, total, Duration::from_secs(8));
        assert_eq!(of(None), "3,600 lines, 450 a second");
        assert_eq!(
            of(Some(45_000)),
            "3,600 of 45,000 lines, 450 a second, 1 min 32 s left"
        );
        // A file that grew while it was read has no time left.
        assert_eq!(
            of(Some(3000)),
            "3,600 of 3,000 lines, 450 a second, 0.00 s left"
        );
        let none = state("lines", 0, Some(5), Duration::ZERO);
        assert!(none.ends_with("- left"), "{none}");
    }
}
