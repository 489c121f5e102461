//! How long each kind of operation takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What is told apart.
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

impl Kind {
    /// Each at its own place.
    const ALL: [Self; 8] = [
        Self::Linear,
        Self::Attention,
        Self::ResidualNorm,
        Self::Activation,
        Self::Dropout,
        Self::CrossEntropy,
        Self::GradientNorm,
        Self::Adam,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Attention => "attention",
            Self::ResidualNorm => "residual_norm",
            Self::Activation => "activation",
            Self::Dropout => "dropout",
            Self::CrossEntropy => "cross_entropy",
            Self::GradientNorm => "gradient_norm",
            Self::Adam => "adam",
        }
    }
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static NANOSECONDS: [AtomicU64; Kind::ALL.len()] = [const { AtomicU64::new(0) }; Kind::ALL.len()];

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
    let time = |kind: Kind| NANOSECONDS[kind as usize].load(Ordering::Relaxed);
    let times = Kind::ALL.into_iter().map(|kind| (kind.name(), time(kind)));
    times
        .filter(|&(_, time)| time > 0)
        .map(|(name, time)| (name, Duration::from_nanos(time)))
        .collect()
}

#[cfg(feature = "flex")]
pub(crate) use timer::Timer;

#[cfg(feature = "flex")]
mod timer {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::Kind;

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
