//! Training: the loop, one step, the optimizer.

mod average;
mod fit;
mod learner;
mod optimizer;
mod precision;
mod restore;

#[cfg(test)]
mod tests;

pub use average::MovingAverage;
pub use fit::{Ending, Finished, Trainer};
pub use learner::{Learner, StepResult};
pub use optimizer::Optimizer;
pub use precision::configure;

pub use crate::run::observer::{Event, Observer};
