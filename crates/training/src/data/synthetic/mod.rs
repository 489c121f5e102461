//! Synthetic tasks, whose examples are computed: copy, reverse, sort, addition, and your own.

pub mod add;
pub mod alphabet;
pub mod annotated;
mod dataset;
pub mod sequence;
pub mod task;

#[cfg(test)]
mod tests;

pub use add::AddTask;
pub use alphabet::Alphabet;
pub use annotated::AnnotatedCopy;
pub use sequence::{Rule, SequenceConfig, SequenceTask};
pub use task::{SyntheticTask, example, examples_of_length};
