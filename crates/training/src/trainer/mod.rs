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
mod reduce;
mod restore;
mod saving;
mod seed;
mod step;
mod stepper;
mod sums;

#[cfg(test)]
mod tests;

pub use average::MovingAverage;
pub use division::Division;
pub use finished::{Ending, Finished};
pub use fit::Trainer;
pub use learner::{Learner, StepResult};
pub use optimizer::Optimizer;
pub use precision::configure;
pub use reduce::Traffic;
pub use step::{TakenStep, device_of};
pub use stepper::Stepper;
pub use sums::Squares;

pub use crate::run::observer::{Event, Observer};
