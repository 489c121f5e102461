//! Measures how long each kind of operation takes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Total time of each kind of operation, by the kind's name.
type Times = Arc<Mutex<BTreeMap<&'static str, Duration>>>;

thread_local! {
    static CURRENT: RefCell<Option<Times>> = const { RefCell::new(None) };
}

/// Measures the time of the calling thread's fast paths on flex in f32, forward and backward, until
/// the profile is dropped. [`attention_step`](crate::attention_step) is not measured.
///
/// The profile also measures operations that the thread runs through
/// [`in_pool`](crate::in_pool), whichever thread of the pool calls them. While a profile is alive,
/// earlier profiles of the same thread pause.
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
    /// Makes the profile `!Send`, since it measures the thread that started it.
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

    /// Returns the total time of each kind of operation so far, by the kind's name.
    ///
    /// Each call of an operation counts with its wall-clock time. The map is empty on every backend
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

    /// Returns the map to which the calling thread's operations add their times, or `None` if no
    /// profile measures the thread.
    pub(crate) fn current() -> Option<Times> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Guard that continues another thread's measurement on the calling thread until the guard is
    /// dropped.
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

    /// Guard that adds the time between its creation and its drop to the total of a kind of
    /// operation, if a profile measures the calling thread.
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
