//! Flags that every command has.

use std::num::NonZero;
use std::{env, fs, thread};

use clap::{ArgAction, Args};
use training::collective::Collective;
use training::error::UsageError;
use training::host;

use super::parse::whole_within;

/// Maximum number of threads. A larger number is probably a mistake.
const MAX_THREADS: usize = 1024;

/// Environment variable with the number of threads, which rayon reads, too.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Flags that go with every command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalArgs {
    /// Number of threads [default: the cores, divided among the processes]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = whole_within(1, MAX_THREADS))]
    pub threads: Option<usize>,
    /// Print only results, warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print help; -h prints a summary
    #[arg(long, short, global = true, action = ArgAction::Help)]
    pub help: Option<bool>,
}

impl GlobalArgs {
    /// Sets the number of threads of rayon's global thread pool. The default is that of the variable
    /// `RAYON_NUM_THREADS`, or one for each core that this process may use, divided by the processes
    /// of `group` that may use the same cores.
    ///
    /// # Errors
    ///
    /// The variable has too large a number, or the pool cannot be created.
    pub fn apply(&self, group: &dyn Collective) -> Result<(), UsageError> {
        let share = (group.size() > 1).then(|| share_of_cores(group));
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        // Of many threads for a core, most wait for the others.
        let limit = (16 * cores).clamp(64, MAX_THREADS);
        let most =
            format!("must be a whole number from 1 to {limit} on a machine with {cores} cores");
        let text = env::var(VARIABLE).ok().filter(|_| self.threads.is_none());
        let text = text.unwrap_or_default();
        let number = Some(text.trim()).filter(|number| !["", "0"].contains(number));
        let variable = number.map(str::parse::<usize>).transpose();
        let variable = variable.map_err(|_| UsageError::new(VARIABLE, &text, &most))?;
        let name = variable.map_or("--threads", |_| VARIABLE);
        let threads = self.threads.or(share).or(variable);
        let threads = threads.unwrap_or(cores.min(limit));
        let wrong = |expected| UsageError::new(name, threads, expected);
        if threads > limit {
            return Err(wrong(most));
        }
        // Burn's CPU backend, the fast paths and the tokenisers all use this pool.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let built = pool.build_global();
        built.map_err(|error| wrong(format!("cannot be started ({error})")))
    }
}

/// Returns the number of threads of this process, at least 1: its cores, divided by the processes
/// of `group` that may use the same cores. Launchers often bind each process, or all processes of
/// a socket, to some of the cores.
fn share_of_cores(group: &dyn Collective) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let cores = lines.find(|line| line.starts_with("Cpus_allowed_list:"));
    let own = format!("{} {}", host::name(), cores.unwrap_or_default());
    let all = group.gather_values(&own);
    let sharing = all.iter().filter(|other| **other == own).count();
    let available = thread::available_parallelism().map_or(1, NonZero::get);
    (available / sharing).max(1)
}
