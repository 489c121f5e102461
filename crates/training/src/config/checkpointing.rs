//! Settings of checkpoints: the section `checkpointing` of a run's configuration.

use serde::{Deserialize, Serialize};

use crate::checks::{MANY, check_count, check_positive};
use crate::error::UsageError;

/// Settings that say when checkpoints are written, and how many are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointingConfig {
    /// Interval of regular checkpoints, in steps; `None` for no regular checkpoints.
    pub every: Option<usize>,
    /// Maximum time without a checkpoint, in seconds. The first step that ends at least this long
    /// after the last checkpoint writes another one; `None` for no such checkpoints.
    pub seconds: Option<f64>,
    /// Number of newest checkpoints that are kept, in addition to the best one.
    pub keep: usize,
}

impl Default for CheckpointingConfig {
    /// Returns settings that write a checkpoint after ten minutes without one, and keep the newest
    /// three.
    fn default() -> Self {
        Self {
            every: None,
            seconds: Some(600.0),
            keep: 3,
        }
    }
}

impl CheckpointingConfig {
    pub(super) fn check(&self) -> Result<(), UsageError> {
        check_count("checkpointing.every", self.every.unwrap_or(1), MANY)?;
        check_count("checkpointing.keep", self.keep, MANY)?;
        check_positive("checkpointing.seconds", self.seconds.unwrap_or(1.0))
    }
}
