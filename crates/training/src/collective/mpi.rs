//! The processes that an MPI launcher has started.

use std::env;

use ::mpi::collective::SystemOperation;
use ::mpi::datatype::PartitionMut;
use ::mpi::environment::Universe;
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator, CommunicatorCollectives, Root};
use ::mpi::{Threading, initialize_with_threading};

use super::Collective;

/// Environment variables that launchers set for each process: Open MPI's `mpirun`, PMIx (`srun`
/// with Open MPI) and PMI (MPICH, `srun`).
const OF_LAUNCHERS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// Maximum number of elements that are summed in one message.
const PART: usize = 1 << 19;

/// The group of all processes that an MPI launcher, such as `mpirun`, has started.
///
/// All calls must come from the thread that created the group. If one of the processes is killed,
/// the launcher ends the others. Dropping the group waits for all processes and ends MPI. During a
/// panic, dropping it ends all processes at once, because the others would wait for this one.
pub struct Mpi {
    world: SimpleCommunicator,
    local_rank: usize,
    local_size: usize,
    // This field comes last, because dropping it finalises MPI.
    _universe: Universe,
}

impl Mpi {
    /// Joins the group of a launcher; `None` if the process was not started by a launcher.
    ///
    /// # Panics
    ///
    /// If a launcher has started the process, and MPI has already been initialised.
    pub fn join() -> Option<Self> {
        let is_launched = OF_LAUNCHERS.iter().any(|name| env::var_os(name).is_some());
        if !is_launched {
            return None;
        }
        let initialized = initialize_with_threading(Threading::Funneled);
        let (universe, _) = initialized.expect("a process joins its group only once");
        let world = universe.world();
        let local = world.split_shared(world.rank());
        Some(Self {
            local_rank: index(local.rank()),
            local_size: index(local.size()),
            world,
            _universe: universe,
        })
    }

    /// Returns the number of this process among those on the same machine, from 0.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// Returns the number of processes on this machine.
    pub fn local_size(&self) -> usize {
        self.local_size
    }

    /// Ends all processes of the group with an exit code, without waiting for them.
    pub fn abort(&self, code: u8) -> ! {
        self.world.abort(code.into())
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort(101);
        }
    }
}

fn index(number: i32) -> usize {
    usize::try_from(number).expect("MPI counts from 0")
}

fn count(length: usize) -> i32 {
    i32::try_from(length).expect("a message has fewer than 2^31 elements")
}

impl Collective for Mpi {
    fn rank(&self) -> usize {
        index(self.world.rank())
    }

    fn size(&self) -> usize {
        index(self.world.size())
    }

    fn sum(&self, values: &mut [f32]) {
        // The crate `mpi` cannot sum in place, so the sums of a part are copied back. A part is so
        // small that it and its sums stay in the cache of the processor.
        let mut sums = vec![0.0; PART.min(values.len())];
        for part in values.chunks_mut(PART) {
            let sums = &mut sums[..part.len()];
            self.world
                .all_reduce_into(&*part, sums, SystemOperation::sum());
            part.copy_from_slice(sums);
        }
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut counts = vec![0; self.size()];
        let own = count(bytes.len());
        self.world.all_gather_into(&own, &mut counts[..]);
        let ends = counts.iter().scan(0_i32, |end, count| {
            *end = end.checked_add(*count)?;
            Some(*end)
        });
        let ends: Vec<i32> = ends.collect();
        assert_eq!(
            ends.len(),
            counts.len(),
            "messages have fewer than 2^31 bytes"
        );
        let starts = ends.iter().zip(&counts).map(|(end, count)| end - count);
        let starts: Vec<i32> = starts.collect();
        let mut all = vec![0; ends.last().copied().map_or(0, index)];
        if all.is_empty() {
            return vec![Vec::new(); counts.len()];
        }
        let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        self.world.all_gather_varcount_into(bytes, &mut parts);
        let parts = starts.iter().zip(&ends);
        parts
            .map(|(&start, &end)| all[index(start)..index(end)].to_vec())
            .collect()
    }

    fn broadcast(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let root = self.world.process_at_rank(0);
        let mut length = bytes.len() as u64;
        root.broadcast_into(&mut length);
        bytes.resize(length as usize, 0);
        count(bytes.len());
        root.broadcast_into(&mut bytes[..]);
        bytes
    }

    fn barrier(&self) {
        self.world.barrier();
    }
}
