//! How long each kind of operation takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const NAMES: [&str; 8] = [
    "linear",
    "attention",
    "residual_norm",
    "activation",
    "dropout",
    "cross_entropy",
    "gradient_norm",
    "adam",
];

static IS_ON: AtomicBool = AtomicBool::new(false);
static NANOSECONDS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Counts from now on, from nothing, how long the fast paths of the whole process take, forward and
/// backward; or stops counting.
pub fn profile(is_on: bool) {
    for nanoseconds in &NANOSECONDS {
        nanoseconds.store(0, Ordering::Relaxed);
    }
    IS_ON.store(is_on, Ordering::Relaxed);
}

/// How long each kind of operation has taken since [`profile`] was called: wall-clock time of the
/// threads that called them, so that it adds up where one thread does. Empty if there was none, as
/// on every backend but flex.
pub fn profiled() -> Vec<(&'static str, Duration)> {
    let times = NANOSECONDS.each_ref().map(|n| n.load(Ordering::Relaxed));
    let times = NAMES.into_iter().zip(times).filter(|&(_, time)| time > 0);
    times
        .map(|(name, time)| (name, Duration::from_nanos(time)))
        .collect()
}

#[cfg(feature = "flex")]
pub(crate) use timer::{Kind, Timer};

#[cfg(feature = "flex")]
mod timer {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    /// In the order of their names.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Kind {
        Linear,
        Attention,
        ResidualNorm,
        Activation,
        Dropout,
        CrossEntropy,
        GradientNorm,
        Adam,
    }

    /// Counts until it is dropped.
    pub(crate) struct Timer(Option<(Kind, Instant)>);

    impl Timer {
        pub(crate) fn of(kind: Kind) -> Self {
            let is_on = super::IS_ON.load(Ordering::Relaxed);
            Self(is_on.then(|| (kind, Instant::now())))
        }
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            if let Some((kind, begun)) = self.0 {
                let time = begun.elapsed().as_nanos() as u64;
                super::NANOSECONDS[kind as usize].fetch_add(time, Ordering::Relaxed);
            }
        }
    }
}
