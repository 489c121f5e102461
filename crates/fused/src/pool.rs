//! Where a long computation runs.

use burn::tensor::Device;

/// Runs `f`, for flex on one of the threads that share its work: handing work over from outside
/// costs more than many operations of a small model. Until it is done, or there was no work for ten
/// milliseconds, the others stay awake, since waking them takes as long as a small operation.
///
/// # Panics
///
/// If `f` does.
pub fn in_pool<R: Send>(device: &Device, f: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "flex")]
    if device.clone().without_autodiff() == Device::flex() {
        return rayon::scope(|_| {
            let _awake = awake::Awake::new();
            f()
        });
    }
    let _ = device;
    f()
}

#[cfg(feature = "flex")]
mod awake {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// Pauses after each look for work that found none: about a microsecond.
    const PAUSES: usize = 20;

    /// How long a thread looks for work before it lets other programs run in between, and until it
    /// goes to sleep after all.
    const ALONE: Duration = Duration::from_micros(100);
    const AWAKE: Duration = Duration::from_millis(10);

    /// Keeps the other threads of this one's pool awake while it lives.
    pub(super) struct Awake(Arc<AtomicBool>);

    impl Awake {
        pub(super) fn new() -> Self {
            let over = Arc::new(AtomicBool::new(false));
            if rayon::current_num_threads() > 1 {
                let (mine, over) = (rayon::current_thread_index(), Arc::clone(&over));
                // Without a scope, which would wait for threads that are busy elsewhere.
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

    #[test]
    fn work_is_shared_inside_and_a_panic_comes_out() {
        let device = Device::flex();
        let sum = in_pool(&device, || {
            use rayon::prelude::*;
            // A pool in the pool, too, as where a search runs between training steps.
            let inner = in_pool(&device, || (0..1000u64).into_par_iter().sum::<u64>());
            inner + (0..1000u64).into_par_iter().map(|i| i * i).sum::<u64>()
        });
        assert_eq!(sum, 499_500 + 332_833_500);
        let caught = std::panic::catch_unwind(|| in_pool(&Device::flex(), || panic!("no")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"no"));
    }
}
