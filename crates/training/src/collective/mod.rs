//! Groups of processes that train one model together (data-parallel training).
//!
//! Each process of a group has a number, its *rank*, and a copy of the model. In each step, it
//! computes the gradients of its share of the batches. The gradients of all processes are added
//! ([`Collective::sum`], [`Collective::sum_parts`]), and all have the same model after the update.
//! Rank 0 alone writes the run folder.
//!
//! [`Alone`] is the group of a single process. `Mpi`, with the feature `mpi`, is the group of the
//! processes that `mpirun` or `srun` has started.

mod alike;
#[cfg(feature = "mpi")]
mod mpi;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[doc(hidden)]
pub use alike::check_alike;
pub(crate) use alike::checksum;

/// A group of processes, as one of them sees it.
///
/// All processes must call the same functions in the same order. A call can wait until every
/// process has made the same call.
pub trait Collective {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Replaces each value by its sum over all processes (all-reduce). `values` must have the same
    /// length in every process. All processes get the same sums, bit for bit, and the same values
    /// always give the same sums.
    fn sum(&self, values: &mut [f32]);

    /// Replaces the values that belong to this process by their sums over all processes
    /// (reduce-scatter). The method `part` of `dyn Collective` returns the range of these values.
    /// The other values are undefined afterwards. `values` must have the same length in every
    /// process. The same values always give the same sums. By default, all values are summed.
    fn sum_parts(&self, values: &mut [f32]) {
        self.sum(values);
    }

    /// Copies the values that belong to each process from that process to all others (all-gather).
    /// `values` must have the same length in every process. By default, the values are sent as
    /// bytes.
    fn share_parts(&self, values: &mut [f32]) {
        let part = part(values.len(), self.rank(), self.size());
        let parts = self.gather(bytemuck::cast_slice(&values[part]));
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        bytes.copy_from_slice(&parts.concat());
    }

    /// Returns the bytes of each process, by rank.
    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;

    /// Returns the bytes of rank 0. Other processes may pass anything.
    fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8>;

    /// Waits until all processes have called this function.
    fn barrier(&self) {
        self.gather(&[]);
    }

    /// Returns the local rank and the local size: the number of this process on its machine, from
    /// 0, and how many processes the machine has.
    fn on_machine(&self) -> (usize, usize) {
        (0, 1)
    }

    /// Returns whether an MPI launcher has started this process.
    fn has_launcher(&self) -> bool {
        false
    }

    /// Ends the other processes of the group, and this one, with an exit code, without waiting for
    /// them. Returns if there are no others.
    fn abort(&self, _code: u8) {}

    /// Returns whether `value` is true in any process.
    fn any(&self, value: bool) -> bool {
        self.gather(&[u8::from(value)]).contains(&vec![1])
    }
}

/// Returns the part of `count` elements that belongs to a process. The parts of all processes are
/// consecutive, and their lengths differ by at most one.
pub(crate) fn part(count: usize, rank: usize, size: usize) -> Range<usize> {
    let start = |rank| count * rank / size;
    start(rank)..start(rank + 1)
}

impl dyn Collective + '_ {
    /// Returns the range of the elements that belong to this process if the processes divide
    /// `count` elements.
    pub fn part(&self, count: usize) -> Range<usize> {
        part(count, self.rank(), self.size())
    }

    /// Returns whether this is rank 0, the process that writes the run folder and prints results.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Returns the sums of the values of all processes, added in the order of the ranks.
    pub fn sum_f64<const N: usize>(&self, values: [f64; N]) -> [f64; N] {
        let mut sums = [0.0; N];
        for bytes in self.gather(bytemuck::cast_slice(&values)) {
            let addends: Vec<f64> = bytemuck::pod_collect_to_vec(&bytes);
            let pairs = sums.iter_mut().zip(addends);
            pairs.for_each(|(sum, addend)| *sum += addend);
        }
        sums
    }

    /// Returns the value of each process, by rank.
    pub fn gather_values<T: Serialize + DeserializeOwned>(&self, value: &T) -> Vec<T> {
        let bytes = serde_json::to_vec(value).expect("it is plain data");
        let all = self.gather(&bytes).into_iter();
        all.map(|bytes| serde_json::from_slice(&bytes).expect("a process has written it"))
            .collect()
    }
}

/// Returns the group of processes that an MPI launcher has started. Without a launcher or without
/// the feature `mpi`, the group is this process alone. Call this function once, before other
/// threads start.
///
/// # Panics
///
/// If a launcher has started the process, and MPI has already been initialised.
pub fn join() -> Box<dyn Collective> {
    #[cfg(feature = "mpi")]
    if let Some(mpi) = mpi::Mpi::join() {
        return Box::new(mpi);
    }
    Box::new(Alone)
}

/// The group of a process that trains by itself.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Collective for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn sum(&self, _: &mut [f32]) {}

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests;
