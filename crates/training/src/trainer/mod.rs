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
#[doc(hidden)]
pub use learner::Learner;
#[doc(hidden)]
pub use precision::configure;
#[doc(hidden)]
pub use prefetcher::{Prefetcher, step_examples};
pub use setup::Trainer;
pub use step::device_of;
#[doc(hidden)]
pub use step::{TakenStep, new_model};
pub use stepper::Stepper;

pub use crate::run::observer::{Event, Observer};
