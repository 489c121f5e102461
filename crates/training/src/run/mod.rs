//! A run on disk: its folder, its files and its checkpoints.
//!
//! A run's folder holds `config.json`, `environment.json`, `metrics.jsonl`, `status.json`,
//! `summary.json`, `checkpoints/step-N/`, and `lengths.json` after an evaluation by length.
//! [`RunFolder`] writes the folder during training. [`TrainedRun`](checkpoint::TrainedRun) reads
//! the settings and the model back.

pub mod checkpoint;
pub(crate) mod config_file;
pub(crate) mod curves;
pub(crate) mod data;
pub(crate) mod environment;
pub(crate) mod folder;
pub(crate) mod latest;
#[doc(hidden)]
pub mod layout;
pub(crate) mod lengths;
mod lock;
pub(crate) mod loss_scale;
pub(crate) mod metrics_log;
mod new_folder;
pub(crate) mod observer;
pub(crate) mod records;
#[doc(hidden)]
pub mod single_file;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod tensorboard;
#[cfg(test)]
mod tests;

pub(crate) use config_file::read_config_json;
pub use folder::RunFolder;
pub use observer::{Event, Observer};
pub use records::{Evaluation, StepMetrics, Summary};
pub use tensorboard::TensorBoard;

#[doc(hidden)]
pub use {
    config_file::read_config,
    curves::{CURVES, Curves, MetricsLine, Point, read_metrics},
    data::{DATA_HASHES, ORIGIN_HASH, RunData, compared_metrics, labels, seed_groups},
    environment::{Environment, quoted, read_environments, rfc3339},
    latest::{find_run, is_cache, run_folders},
    layout::unusable,
    lengths::{Lengths, LengthsOf, add_lengths, read_lengths},
    loss_scale::LossScale,
    state::{Best, Earlier, TrainingState},
    status::{EndReason, Origin, RunStatus, Status, read_status, record_stop},
};
