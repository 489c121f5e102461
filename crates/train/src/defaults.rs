//! Settings that solve each task on two cores; the README has the times.

use crate::config::{RunConfig, TaskConfig};
use crate::task::SequenceConfig;

impl RunConfig {
    /// Reverse.
    pub fn reverse() -> Self {
        Self {
            task: TaskConfig::Reverse(SequenceConfig::default()),
            ..Self::copy()
        }
    }

    /// Sort.
    pub fn sort() -> Self {
        Self {
            task: TaskConfig::Sort(SequenceConfig::default()),
            ..Self::copy()
        }
    }

    /// Addition of numbers of up to four digits.
    pub fn add() -> Self {
        Self {
            task: TaskConfig::Add { max_digits: 4 },
            ..Self::copy()
        }
    }
}
