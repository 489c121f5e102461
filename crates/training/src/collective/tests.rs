//! Tests of groups of processes, and a group for tests, whose processes are threads.

use std::sync::{Barrier, Mutex};
use std::thread;

use super::{Collective, part};

/// The messages of the current call, by rank, and the barrier at which all threads wait before and
/// after they read the messages.
struct Shared {
    messages: Mutex<Vec<Vec<u8>>>,
    barrier: Barrier,
}

/// One process of the group, which is a thread.
struct Rank<'a> {
    rank: usize,
    size: usize,
    shared: &'a Shared,
}

/// Runs `work` in `size` threads as the ranks of a group, and returns their results by rank.
pub fn ranks<T: Send>(size: usize, work: impl Fn(&dyn Collective) -> T + Sync) -> Vec<T> {
    let shared = Shared {
        messages: Mutex::new(vec![Vec::new(); size]),
        barrier: Barrier::new(size),
    };
    let (shared, work) = (&shared, &work);
    thread::scope(|scope| {
        let start = |rank| scope.spawn(move || work(&Rank { rank, size, shared }));
        let threads: Vec<_> = (0..size).map(start).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| result.expect("no rank panics"))
            .collect()
    })
}

impl Collective for Rank<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, values: &mut [f32]) {
        let all = self.gather(bytemuck::cast_slice(values));
        values.fill(0.0);
        for bytes in all {
            let part: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes);
            assert_eq!(part.len(), values.len());
            values
                .iter_mut()
                .zip(part)
                .for_each(|(sum, part)| *sum += part);
        }
    }

    fn sum_parts(&self, values: &mut [f32]) {
        self.sum(values);
        // The other parts are undefined, so nothing may read them. NaN would show if something did.
        let part = part(values.len(), self.rank, self.size);
        values[..part.start].fill(f32::NAN);
        values[part.end..].fill(f32::NAN);
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.shared.messages.lock().unwrap()[self.rank] = bytes.to_vec();
        self.shared.barrier.wait();
        let all = self.shared.messages.lock().unwrap().clone();
        self.shared.barrier.wait();
        all
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.gather(&bytes).swap_remove(0)
    }
}

#[test]
fn sums_and_gathered_values_are_the_same_in_every_process() {
    for size in 1..=4 {
        let all = ranks(size, |group: &dyn Collective| {
            let rank = group.rank();
            assert_eq!(group.is_first(), rank == 0);
            let mut sum = vec![rank as f32, 1.0];
            group.sum(&mut sum);
            let sum_f64 = group.sum_f64([0.5, rank as f64]);
            let names = group.gather_values(&format!("rank {rank}"));
            let first = group.broadcast(vec![rank as u8; rank + 1]);
            let any = [group.any(rank == 1), group.any(false)];
            (sum, sum_f64, names, first, any)
        });
        let n = size as f32;
        let triangle = n * (n - 1.0) / 2.0;
        let names: Vec<String> = (0..size).map(|rank| format!("rank {rank}")).collect();
        for found in all {
            let sum_f64 = [0.5 * f64::from(n), f64::from(triangle)];
            let any = [size > 1, false];
            let expected = (vec![triangle, n], sum_f64, names.clone(), vec![0], any);
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn parts_are_summed_where_they_belong_and_then_shared() {
    for size in 1..=4 {
        for count in [0, 1, 7, 64] {
            let all = ranks(size, |group: &dyn Collective| {
                let mut values: Vec<f32> = (0..count).map(|index| index as f32).collect();
                group.sum_parts(&mut values);
                group.share_parts(&mut values);
                (group.part(count), values)
            });
            let sums: Vec<f32> = (0..count).map(|index| (index * size) as f32).collect();
            let mut end = 0;
            for (part, values) in all {
                assert_eq!((part.start, &values), (end, &sums));
                end = part.end;
            }
            assert_eq!(end, count);
        }
    }
}
