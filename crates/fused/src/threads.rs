//! Runs a long computation inside rayon's thread pool.

use burn::tensor::Device;

/// Runs `f` and returns its result.
///
/// On flex, `f` runs on a thread of rayon's pool, except in WebAssembly, which has no threads.
///
/// Inside the pool, `f` starts operations at once. Outside, each parallel operation would first be
/// handed to the pool, and the wait for the pool takes longer than many operations of a small
/// model. The other threads of the pool stay awake until `f` is done or they have found no work for
/// ten milliseconds, since waking a thread takes as long as a small operation.
///
/// The settings of the calling thread ([`fast_paths`](crate::fast_paths),
/// [`bf16_matmuls`](crate::bf16_matmuls), [`Profile`](crate::Profile)) hold for `f` too.
///
/// # Panics
///
/// If `f` panics.
pub fn in_pool<R: Send>(device: &Device, f: impl FnOnce() -> R + Send) -> R {
    // A thread of the pool has these settings already, and the others are awake.
    #[cfg(all(feature = "flex", not(target_family = "wasm")))]
    if rayon::current_thread_index().is_some() {
        return f();
    }
    #[cfg(feature = "flex")]
    if device.clone().without_autodiff() == Device::flex() {
        use crate::fast_paths::{fast_paths, has_fast_paths};
        use crate::precision::{bf16_matmuls, has_bf16_matmuls};
        use crate::profile::{Continued, current};

        let (is_enabled, is_bf16, times) = (has_fast_paths(), has_bf16_matmuls(), current());
        return crate::parallel::scope(|| {
            let _fast_paths = fast_paths(is_enabled);
            let _bf16 = bf16_matmuls(is_bf16);
            let _profile = Continued::on_this_thread(times);
            #[cfg(not(target_family = "wasm"))]
            let _awake = awake::Awake::new();
            f()
        });
    }
    let _ = device;
    f()
}

/// Maps items in order, with `f` on several threads if the work pays for them.
///
/// `work` is about the number of elements that all calls of `f` read. Without the feature `flex`, and
/// in WebAssembly, the calling thread does all of it.
pub fn map_in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    work: usize,
    f: impl Fn(T) -> R + Send + Sync,
) -> Vec<R> {
    /// Least work for which more threads pay.
    const LEAST: usize = 1 << 15;
    #[cfg(feature = "flex")]
    return crate::parallel::map_if(work >= LEAST, items.into_iter(), f);
    #[cfg(not(feature = "flex"))]
    {
        let _ = (work, LEAST);
        items.into_iter().map(f).collect()
    }
}

#[cfg(all(feature = "flex", not(target_family = "wasm")))]
mod awake {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// Number of spin-loop pauses between two checks for work. Together, they take at most about a
    /// microsecond.
    const PAUSES: usize = 20;

    /// Time without work after which a thread yields the CPU between two checks for work, instead
    /// of spinning.
    const ALONE: Duration = Duration::from_micros(100);

    /// Time without work after which a thread goes to sleep.
    const AWAKE: Duration = Duration::from_millis(10);

    /// Guard that keeps the other threads of the calling thread's pool awake. They sleep after
    /// [`AWAKE`] without work, or when the guard is dropped and sets their flag.
    pub(super) struct Awake(Arc<AtomicBool>);

    impl Awake {
        pub(super) fn new() -> Self {
            let over = Arc::new(AtomicBool::new(false));
            if rayon::current_num_threads() > 1 {
                let (mine, over) = (rayon::current_thread_index(), Arc::clone(&over));
                // `Scope::spawn_broadcast` is not used, since the scope would wait for all threads,
                // even those that are busy with other work.
                rayon::spawn_broadcast(move |context| {
                    if Some(context.index()) != mine {
                        look_for_work(&over);
                    }
                });
            }
            Self(over)
        }
    }

    impl Drop for Awake {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn look_for_work(over: &AtomicBool) {
        let mut idle_since = Instant::now();
        while !over.load(Ordering::Relaxed) {
            if rayon::yield_now() == Some(rayon::Yield::Executed) {
                idle_since = Instant::now();
                continue;
            }
            let idle = idle_since.elapsed();
            if idle > AWAKE {
                return;
            }
            if idle > ALONE {
                std::thread::yield_now();
            } else {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::fast_paths::{fast_paths, has_fast_paths};
    use crate::profile::current;

    #[test]
    fn work_is_shared_and_a_panic_is_passed_on() {
        let device = Device::flex();
        let sum = in_pool(&device, || {
            use rayon::prelude::*;
            // Calls of `in_pool` may be nested, as when a search runs inside a training loop.
            let inner = in_pool(&device, || (0..1000u64).into_par_iter().sum::<u64>());
            inner + (0..1000u64).into_par_iter().map(|i| i * i).sum::<u64>()
        });
        assert_eq!(sum, 499_500 + 332_833_500);
        let caught = std::panic::catch_unwind(|| in_pool(&Device::flex(), || panic!("no")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"no"));
    }

    #[test]
    fn results_have_the_order_of_the_items() {
        for work in [0, 1 << 20] {
            let squares = map_in_parallel((0..1000u64).collect(), work, |i| i * i);
            assert!(squares.into_iter().eq((0..1000).map(|i| i * i)));
        }
    }

    #[test]
    fn settings_of_the_calling_thread_hold_inside() {
        let device = Device::flex();
        let profile = crate::profile::Profile::start();
        {
            let _plain = fast_paths(false);
            assert!(!in_pool(&device, has_fast_paths));
        }
        let is_fast = in_pool(&device, || {
            let x = burn::tensor::Tensor::<2>::ones([2, 2], &Device::flex());
            let _ = crate::ops::linear::linear(x.clone(), x, None);
            has_fast_paths()
        });
        assert!(is_fast);
        assert_eq!(profile.times().into_keys().collect::<Vec<_>>(), ["linear"]);
        // No setting is left behind on a thread of the pool.
        drop(profile);
        rayon::broadcast(|_| assert!(has_fast_paths() && current().is_none()));
    }
}
