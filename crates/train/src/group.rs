//! The processes that an MPI launcher has started, if this build has the feature `mpi`.

use std::env;
use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use training::collective::{self, Alone, Collective};
use training::error::UsageError;
use training::run::RunFolder;

use crate::exit::Exit;
use crate::terminal::output;

/// Time for which a process other than rank 0 holds back its error. An error that all processes
/// have is then printed by rank 0 alone, which ends the other processes.
const GRACE: Duration = Duration::from_secs(2);

/// Environment variables in which launchers store the number of processes that they have started:
/// those of Open MPI, of launchers with PMI (MPICH), and of Slurm's `srun`.
///
/// The first variable whose value is a number counts. Slurm's variable is the last, because
/// `mpirun` in a Slurm job can pass it on with another number.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The group of processes to which this process belongs. Without a launcher, the group is this
/// process alone.
pub struct Group(Box<dyn Collective>);

impl Group {
    /// Joins the other processes that the same MPI launcher has started. Without a launcher or the
    /// feature `mpi`, returns the group of this process alone.
    pub fn join() -> Self {
        Self(collective::join())
    }

    /// Returns the group of this process alone.
    pub fn alone() -> Self {
        Self(Box::new(Alone))
    }

    /// Checks that the launcher has started all processes with the same command line. `words` is
    /// the command line of this process, without the program's name.
    ///
    /// # Errors
    ///
    /// If the command line of a process differs from that of rank 0, or the launcher has started
    /// several processes that this build cannot join.
    pub fn check_words(&self, words: &[OsString]) -> Result<(), UsageError> {
        let group = self.collective();
        let sizes = SIZES.iter();
        let sizes = sizes.filter_map(|name| Some((name, env::var(name).ok()?.parse().ok()?)));
        let sizes: Vec<(_, usize)> = sizes.collect();
        let started = sizes.first().map_or(1, |&(_, size)| size);
        if started > 1 && group.size() == 1 {
            let what = if cfg!(feature = "mpi") {
                "cannot reach each other: use the launcher of the MPI that this build uses (with Slurm and Open MPI, `srun --mpi=pmix`)"
            } else {
                "need a build with MPI: cargo build --release -p train --features mpi"
            };
            let names = sizes.iter().map(|(name, _)| format!(" -u {name}"));
            let what = format!(
                "{what}; to run each by itself, start it as `env{} train ..`",
                names.collect::<String>()
            );
            return Err(UsageError::new("processes", started, what));
        }
        let words = Vec::from_iter(words.iter().map(|word| word.to_string_lossy()));
        let all = group.gather_values(&words);
        let other = all.iter().enumerate().find(|(_, other)| **other != all[0]);
        other.map_or(Ok(()), |(rank, other)| {
            let [other, first] = [other, &all[0]].map(|words| words.join(" "));
            let what = format!(
                "rank {rank} has \"train {other}\", but rank 0 has \"train {first}\"; all processes must have the same"
            );
            Err(UsageError::new("command line", "", what))
        })
    }

    /// Returns the group in the form that the library `training` takes.
    pub fn collective(&self) -> &dyn Collective {
        self.0.as_ref()
    }

    /// Returns whether this process has rank 0, which alone writes the run folder and prints
    /// results.
    pub fn is_first(&self) -> bool {
        self.collective().is_first()
    }

    /// Runs `work` in rank 0 first, and then in the other processes, which can use the files that
    /// rank 0 has written.
    pub fn first_then_others<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if !self.is_first() {
            self.collective().barrier();
        }
        // If `work` fails in rank 0, rank 0 ends all processes, so none waits at the barrier
        // forever.
        let done = work()?;
        if self.is_first() {
            self.collective().barrier();
        }
        Ok(done)
    }

    /// Returns the folder of a run in every process. Rank 0 passes the folder that it has created
    /// as `own`, and the others pass `None`.
    pub fn folder(&self, own: Option<RunFolder>) -> RunFolder {
        // A path may not be UTF-8, but an `OsString` can always be sent.
        let path = own.as_ref().map(|folder| folder.path().as_os_str());
        let paths = self.collective().gather_values(&path.map(OsString::from));
        own.unwrap_or_else(|| {
            let path = paths[0].as_ref().expect("rank 0 has a folder");
            RunFolder::follow(path.as_ref())
        })
    }

    /// Prints the error that ends this process, and stops the other processes of the group. If
    /// there are none, returns `exit`.
    pub fn fail(&self, error: &str, exit: Exit) -> Exit {
        let rank = self.collective().rank();
        if rank == 0 {
            output::error(error);
        } else {
            thread::sleep(GRACE);
            output::message(&format!("error: rank {rank}: {error}"));
        }
        self.collective().abort(exit as u8);
        exit
    }
}
