//! Training: the loop, single steps, the optimizer, checkpoints and the trained model.

mod average;
mod division;
mod evaluating;
mod finished;
mod fit;
mod learner;
mod losses;
mod optimizer;
mod precision;
mod prefetcher;
mod reduce;
mod saving;
mod setup;
mod step;
mod stepper;
mod sums;

#[cfg(test)]
mod tests;

pub use finished::{Ending, Finished};
pub use setup::Trainer;
pub use step::device_of;
pub use stepper::Stepper;

pub use crate::run::observer::{Event, Observer};

#[doc(hidden)]
pub use {
    learner::Learner,
    precision::configure,
    prefetcher::{Prefetcher, step_examples},
    step::{TakenStep, new_model},
};
