//! A run on disk: its folder, its files and its checkpoints.
//!
//! A run's folder holds `config.json`, `environment.json`, `metrics.jsonl`, `status.json`,
//! `summary.json`, `checkpoints/step-N/`, and `lengths.json` after an evaluation by length.
//! [`RunFolder`] writes the folder during training. [`TrainedRun`](checkpoint::TrainedRun) reads
//! the settings and the model back.

pub mod checkpoint;
pub mod config_file;
pub mod curves;
pub mod data;
pub mod environment;
pub mod folder;
pub mod latest;
pub mod layout;
pub mod lengths;
mod lock;
pub mod loss_scale;
pub mod metrics_log;
mod new_folder;
pub mod observer;
pub mod records;
pub mod single_file;
pub mod state;
pub mod status;
pub mod tensorboard;
#[cfg(test)]
mod tests;

pub use config_file::read_config;
pub(crate) use config_file::read_config_json;
pub use curves::{CURVES, Curves, MetricsLine, Point, read_metrics};
pub use data::{COMPARED, RunData, labels, seed_groups};
pub use environment::{Environment, read_environments};
pub use folder::RunFolder;
pub use latest::{find_run, run_folders};
pub use layout::unusable;
pub use lengths::{Lengths, LengthsOf, add_lengths, read_lengths};
pub use loss_scale::LossScale;
pub use metrics_log::MetricsPosition;
pub use observer::{Event, Observer};
pub use records::{Evaluation, StepMetrics, Summary};
pub use state::{Best, TrainingState};
pub use status::{EndReason, RunStatus, Status, read_status, record_stop};
pub use tensorboard::TensorBoard;
