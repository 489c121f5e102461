//! Synthetic tasks, whose examples are computed: copy, reverse, sort, addition, and your own.

pub(crate) mod add;
pub(crate) mod alphabet;
pub(crate) mod annotated;
mod dataset;
pub(crate) mod sequence;
pub(crate) mod task;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use add::AddTask;
pub use alphabet::Alphabet;
#[doc(hidden)]
pub use annotated::AnnotatedCopy;
#[doc(hidden)]
pub use sequence::{Rule, SequenceConfig, SequenceTask};
pub use task::{SyntheticTask, example, examples_of_length};
