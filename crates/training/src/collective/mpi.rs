//! The processes that an MPI launcher has started.

use std::env;
use std::ops::Range;

use ::mpi::collective::SystemOperation;
use ::mpi::datatype::PartitionMut;
use ::mpi::environment::Universe;
use ::mpi::point_to_point::send_receive_into;
use ::mpi::topology::{Process, SimpleCommunicator};
use ::mpi::traits::{Communicator, CommunicatorCollectives, Root};
use ::mpi::{Threading, initialize_with_threading};

use super::{Collective, part};

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
    /// Joins the group of a launcher. Returns `None` if the process was not started by a launcher.
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

    fn block_length(&self) -> usize {
        (PART / self.size()).max(1)
    }

    /// Divides the part of each process into blocks. Returns the first blocks of all parts, by
    /// rank, then the second blocks, and so on.
    ///
    /// The blocks that are returned together have at most [`PART`] elements, so that they stay in
    /// the cache of a processor.
    fn blocks(&self, count: usize) -> impl Iterator<Item = Vec<Range<usize>>> + use<> {
        let (size, length) = (self.size(), self.block_length());
        let parts: Vec<Range<usize>> = (0..size).map(|rank| part(count, rank, size)).collect();
        (0..count.div_ceil(size)).step_by(length).map(move |at| {
            let block = |part: &Range<usize>| {
                let start = part.end.min(part.start + at);
                start..part.end.min(start + length)
            };
            parts.iter().map(block).collect()
        })
    }

    /// Returns the rank to which this process sends and the rank from which it receives, for each
    /// round of an all-to-all exchange.
    fn rounds(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (rank, size) = (self.rank(), self.size());
        (1..size).map(move |round| ((rank + round) % size, (rank + size - round) % size))
    }

    fn process(&self, rank: usize) -> Process<'_> {
        self.world.process_at_rank(count(rank))
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.world.abort(101);
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

    fn sum_parts(&self, values: &mut [f32]) {
        let own = self.rank();
        let mut addends = vec![0.0; self.block_length()];
        for blocks in self.blocks(values.len()) {
            for (to, from) in self.rounds() {
                let addends = &mut addends[..blocks[own].len()];
                let (receiver, sender) = (self.process(to), self.process(from));
                send_receive_into(&values[blocks[to].clone()], &receiver, addends, &sender);
                let sums = values[blocks[own].clone()].iter_mut();
                sums.zip(addends).for_each(|(sum, addend)| *sum += *addend);
            }
        }
    }

    fn share_parts(&self, values: &mut [f32]) {
        let own = self.rank();
        for blocks in self.blocks(values.len()) {
            for (to, from) in self.rounds() {
                let both = [blocks[own].clone(), blocks[from].clone()];
                let both = values.get_disjoint_mut(both);
                let [own, theirs] = both.expect("parts do not overlap");
                send_receive_into(&*own, &self.process(to), theirs, &self.process(from));
            }
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
        let is_small = ends.len() == counts.len();
        assert!(is_small, "messages have fewer than 2^31 bytes");
        let starts = Vec::from_iter(ends.iter().zip(&counts).map(|(end, count)| end - count));
        let mut all = vec![0; ends.last().copied().map_or(0, index)];
        if all.is_empty() {
            return vec![Vec::new(); counts.len()];
        }
        let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        self.world.all_gather_varcount_into(bytes, &mut parts);
        let parts = starts.iter().zip(&ends);
        let part = |(&start, &end)| all[index(start)..index(end)].to_vec();
        parts.map(part).collect()
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

    fn on_machine(&self) -> (usize, usize) {
        (self.local_rank, self.local_size)
    }

    fn has_launcher(&self) -> bool {
        true
    }

    fn abort(&self, code: u8) {
        if self.size() > 1 {
            self.world.abort(code.into());
        }
    }
}
