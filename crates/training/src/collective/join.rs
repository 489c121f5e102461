//! Joins the group to which this process belongs.

#[cfg(feature = "mpi")]
use super::Mpi;
use super::{Alone, Collective};

/// Returns the group of processes that an MPI launcher has started. Without a launcher or without
/// the feature `mpi`, the group is this process alone. Call this function once, before other
/// threads start.
///
/// # Panics
///
/// If a launcher has started the process, and MPI has already been initialised.
pub fn join() -> Box<dyn Collective> {
    #[cfg(feature = "mpi")]
    if let Some(mpi) = Mpi::join() {
        return Box::new(mpi);
    }
    Box::new(Alone)
}
