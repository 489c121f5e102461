//! Flags that several commands share, or that have rules of their own, and the parsers of values.

mod check;
mod eval;
mod fit;
pub mod flags;
mod generate;
mod global;
mod input;
mod metric;
mod parse;
mod resume;
mod search;
mod settings;
mod trained;
mod weights;

pub use check::{needs, reject, set};
pub use eval::EvalArgs;
pub use fit::{FitArgs, HINT};
pub use generate::GenerateArgs;
pub use global::GlobalArgs;
pub use input::InputArgs;
pub use metric::MetricArgs;
pub use parse::{chosen, name_of, preset, run_folder, whole_within};
pub use resume::ResumeArgs;
pub use search::{check_generation, usual_batch_size};
pub use settings::follows;
pub use trained::TrainedArgs;
pub use weights::{ExportArgs, ImportArgs, InspectArgs};
