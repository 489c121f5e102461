//! The configuration of a run, with one structure for each section, and presets.

mod assign;
mod checkpointing;
#[doc(hidden)]
pub mod differences;
mod evaluation;
mod execution;
pub mod file;
mod model;
mod optimization;
pub(crate) mod presets;
mod run;

pub use crate::schedule::{Schedule, ScheduleKind};

#[doc(hidden)]
pub use crate::data::Preset;
pub use checkpointing::CheckpointingConfig;
#[doc(hidden)]
pub use evaluation::MAX_LENGTH;
pub use evaluation::{BestBy, EvaluationConfig, LengthsConfig};
pub use execution::{ExecutionConfig, Precision};
pub use model::ModelSettings;
pub use optimization::{LoraConfig, OptimizationConfig, OptimizerConfig, OptimizerKind};
pub use run::RunConfig;
#[doc(hidden)]
pub use run::{SEED, all_settings, setting_at};
