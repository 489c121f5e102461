//! Flags that every command has.

use std::num::NonZero;
use std::{fs, thread};

use clap::{ArgAction, Args};
use training::error::UsageError;

use super::parse::whole_number;
use crate::terminal::ColorChoice;

/// Maximum value of `--threads`. A larger number is probably a mistake.
const MAX_THREADS: usize = 1024;

/// Flags that go with every command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalArgs {
    /// Number of threads [default: one for each core]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub threads: Option<usize>,
    /// Print only results, warnings and errors
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print the log of the program, too
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// When output has colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub color: ColorChoice,
    /// Print help; -h prints a summary
    #[arg(long, short, global = true, action = ArgAction::Help)]
    pub help: Option<bool>,
}

impl GlobalArgs {
    /// Sets the number of threads of rayon's global thread pool. The default is one for each core;
    /// `processes` on this machine share its cores.
    ///
    /// # Errors
    ///
    /// A number of threads that is 0 or larger than [`MAX_THREADS`], or a pool that cannot be
    /// created.
    pub fn apply(&self, processes: usize) -> Result<(), UsageError> {
        let share = (processes > 1).then(|| share_of_cores(processes));
        let Some(threads) = self.threads.or(share) else {
            return Ok(());
        };
        let wrong = |expected: String| Err(UsageError::new("--threads", threads, expected));
        if !(1..=MAX_THREADS).contains(&threads) {
            return wrong(format!("must be at least 1 and at most {MAX_THREADS}"));
        }
        // Burn's CPU backend, the fast paths and the tokenisers all use this pool.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        match pool.build_global() {
            Ok(()) => Ok(()),
            Err(error) => wrong(format!("cannot be started ({error})")),
        }
    }
}

/// Returns the number of threads of one of `processes` on this machine. Launchers often bind each
/// process to cores of its own; the process then gets all of these.
fn share_of_cores(processes: usize) -> usize {
    let available = thread::available_parallelism().map_or(1, NonZero::get);
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|ranges| count(ranges.trim()));
    match online {
        Some(online) if available < online => available,
        _ => (available / processes).max(1),
    }
}

/// Returns the number of elements in a list of inclusive ranges, such as `0-3,8`.
fn count(ranges: &str) -> Option<usize> {
    let size = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
        Some(1 + last.checked_sub(first)?)
    };
    ranges.split(',').map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted() {
        for (ranges, expected) in [
            ("0", Some(1)),
            ("0-3,8", Some(5)),
            ("", None),
            ("3-1", None),
        ] {
            assert_eq!(count(ranges), expected, "{ranges}");
        }
        assert!(share_of_cores(10_000) >= 1);
    }
}
