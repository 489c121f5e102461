//! The command line: flags, and the settings that they stand for.

mod backend;
mod bench;
mod check;
mod cli;
mod eval;
mod fit;
pub mod flags;
mod generate;
mod lengths;
mod output;
mod parse;
mod plot;
mod resume;
mod score;
mod search;
mod task;
mod text;
mod trained;
mod training;
mod values;
mod weights;

pub use bench::{BenchArgs, Measured, Shape};
pub use check::{needs, reject, set};
pub use cli::{Cli, Command, one_line};
pub use eval::EvalArgs;
pub use fit::FitArgs;
pub use generate::GenerateArgs;
pub use lengths::length_settings;
pub use parse::name_of;
pub use plot::PlotArgs;
pub use resume::ResumeArgs;
pub use score::{MetricArgs, ScoreArgs};
pub use search::{check_batch_size, check_generation};
pub use trained::TrainedArgs;
pub use weights::{ExportArgs, ImportArgs, InspectArgs};
