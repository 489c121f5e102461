//! Settings of checkpoints: the section `checkpointing` of a run's configuration.

use serde::{Deserialize, Serialize};

use crate::setting::{MANY, positive, settings, whole};

settings! {
    /// Settings that say when checkpoints are written, and how many are kept.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct CheckpointingConfig in "checkpointing." {
        /// Steps between checkpoints.
        every: Option<usize> = None, whole(1, MANY).rare_flag("--checkpoint-every", "STEPS").may_change();
        /// Seconds without a checkpoint after which the next step writes one.
        seconds: Option<f64> = Some(600.0), positive().rare_flag("--checkpoint-seconds", "SECONDS").may_change();
        /// Newest checkpoints to keep, besides the best.
        keep: usize = 3, whole(1, MANY).flag("--keep", "N").may_change();
    }
}
