//! Flags that every command has.

use std::num::NonZero;
use std::{fs, thread};

use clap::{ArgAction, Args};
use training::collective::{Collective, host};
use training::error::UsageError;

use super::parse::whole_number;
use crate::terminal::ColorChoice;

/// Maximum value of `--threads`. A larger number is probably a mistake.
const MAX_THREADS: usize = 1024;

/// Flags that go with every command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalArgs {
    /// Number of threads [default: the cores, divided among the processes]
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
    /// Sets the number of threads of rayon's global thread pool. The default is one for each core
    /// that this process may use, divided by the processes of `group` that may use the same cores.
    ///
    /// # Errors
    ///
    /// A number of threads that is 0 or larger than [`MAX_THREADS`], or a pool that cannot be
    /// created.
    pub fn apply(&self, group: &dyn Collective) -> Result<(), UsageError> {
        let share = (group.size() > 1).then(|| share_of_cores(group));
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

/// Returns the number of threads of this process, at least 1: its cores, divided by the processes
/// of `group` that may use the same cores. Launchers often bind each process, or all processes of
/// a socket, to some of the cores.
fn share_of_cores(group: &dyn Collective) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let cores = lines.find(|line| line.starts_with("Cpus_allowed_list:"));
    let own = format!("{} {}", host(), cores.unwrap_or_default());
    let all = group.gather_values(&own);
    let sharing = all.iter().filter(|other| **other == own).count();
    let available = thread::available_parallelism().map_or(1, NonZero::get);
    (available / sharing).max(1)
}
