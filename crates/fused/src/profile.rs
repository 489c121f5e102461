//! Measures how long each kind of operation takes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Total time by kind of operation.
type Times = Arc<Mutex<BTreeMap<&'static str, Duration>>>;

thread_local! {
    static CURRENT: RefCell<Option<Times>> = const { RefCell::new(None) };
}

/// Measures the fast paths of the calling thread, forward and backward, until it is dropped.
///
/// It also measures operations that the thread runs through [`in_pool`](crate::in_pool), on any
/// thread of the pool. While a profile is alive, an earlier one of the same thread pauses.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let profile = fused::Profile::start();
/// let x = Tensor::<2>::ones([2, 2], &Device::flex());
/// let _ = fused::linear(x.clone(), x, None);
/// # #[cfg(feature = "flex")]
/// assert!(profile.times().contains_key("linear"));
/// ```
#[derive(Debug)]
pub struct Profile {
    times: Times,
    before: Option<Times>,
    /// Keeps the profile on its thread, to which the measurement belongs.
    not_send: PhantomData<*const ()>,
}

impl Profile {
    /// Starts a measurement.
    #[must_use = "the measurement ends when the profile is dropped"]
    pub fn start() -> Self {
        let times = Times::default();
        Self {
            before: CURRENT.replace(Some(Arc::clone(&times))),
            times,
            not_send: PhantomData,
        }
    }

    /// Returns the total time of each kind of operation so far, by its name.
    ///
    /// Times are wall-clock times of the threads that called the operations. They add up to the
    /// time that passed only if one thread called all operations. The map is empty on every backend
    /// but flex.
    pub fn times(&self) -> BTreeMap<&'static str, Duration> {
        self.times
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

#[cfg(feature = "flex")]
pub(crate) use measure::{Continued, Timer, current};

#[cfg(feature = "flex")]
mod measure {
    use std::sync::PoisonError;
    use std::time::Instant;

    use super::{CURRENT, Times};

    /// Returns the times to which the calling thread's operations add; `None` if it is not
    /// measured.
    pub(crate) fn current() -> Option<Times> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The guard of another thread's measurement, which continues on the calling thread until the
    /// guard is dropped.
    pub(crate) struct Continued(Option<Times>);

    impl Continued {
        pub(crate) fn on_this_thread(times: Option<Times>) -> Self {
            Self(CURRENT.replace(times))
        }
    }

    impl Drop for Continued {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }

    /// Adds the time from its creation to its drop to a kind of operation, if the calling thread is
    /// measured.
    pub(crate) struct Timer(Option<(&'static str, Instant)>);

    impl Timer {
        pub(crate) fn of(kind: &'static str) -> Self {
            let is_measured = CURRENT.with_borrow(Option::is_some);
            Self(is_measured.then(|| (kind, Instant::now())))
        }
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            if let Some((kind, start)) = self.0 {
                CURRENT.with_borrow(|times| {
                    if let Some(times) = times {
                        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                        *times.entry(kind).or_default() += start.elapsed();
                    }
                });
            }
        }
    }
}
