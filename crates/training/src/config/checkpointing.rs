//! Settings of checkpoints: the section `checkpointing` of a run's configuration.

use serde::{Deserialize, Serialize};

use super::checks::{MANY, check_count, check_positive};
use crate::error::UsageError;

/// When checkpoints are written, and how many are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointingConfig {
    /// Steps between checkpoints; `None` if steps write none.
    pub every: Option<usize>,
    /// Seconds between checkpoints; `None` if time writes none.
    pub seconds: Option<f64>,
    /// Number of newest checkpoints that are kept, besides the best.
    pub keep: usize,
}

impl Default for CheckpointingConfig {
    /// A checkpoint every ten minutes; the newest three are kept.
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
