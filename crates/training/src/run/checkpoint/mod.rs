//! Writes and reads checkpoints, which hold the parameters and the state of a run.

mod contents;
mod selector;
mod store;
mod trained;

pub(crate) use contents::{
    AVERAGE, at_step, check_config, earlier, first_infinite, read_parameters, restored,
};
#[doc(hidden)]
pub use contents::{MODEL, STATE, newest, of_model, read_state};
pub use selector::CheckpointSelector;
pub use store::{CheckpointError, Checkpoints, OPTIMIZER};
#[doc(hidden)]
pub use store::{Content, LoadedCheckpoint};
pub use trained::{TrainedRun, load_model};

#[doc(hidden)]
pub use super::layout::CONFIG;
