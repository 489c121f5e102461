//! The configuration of a run, with one structure for each section, and presets.

mod assign;
mod checkpointing;
pub mod differences;
mod evaluation;
mod execution;
pub mod file;
mod model;
mod optimization;
pub mod presets;
mod run;

pub use crate::schedule::{Schedule, ScheduleKind};

pub use crate::data::Preset;
pub use checkpointing::CheckpointingConfig;
pub use evaluation::{BestBy, EvaluationConfig, LengthsConfig, MAX_LENGTH};
pub use execution::{ExecutionConfig, Precision};
pub use model::ModelSettings;
pub use optimization::{LoraConfig, OptimizationConfig, OptimizerConfig, OptimizerKind};
pub use run::{RunConfig, SEED, all_settings, setting_at};
