//! Flags that several commands or files share, and the parsers of values.

mod check;
mod eval;
pub mod flags;
mod generate;
mod global;
mod input;
mod metric;
mod names;
mod parse;
mod search;
mod settings;
mod trained;

pub use check::{
    check_replaced, different, folder_of, needs, output_or, reject, set, unwritable_output,
};
pub use eval::EvalArgs;
pub use generate::GenerateArgs;
pub use global::GlobalArgs;
pub use input::InputArgs;
pub use metric::MetricArgs;
pub use names::NameArgs;
pub use parse::{
    SETTING, assignment, chosen, name_of, named, named_if, preset, recorded_path, run_folder,
    whole_number, whole_within,
};
pub use search::{check_generation, usual_batch_size};
pub use settings::{CorpusArgs, SettingArgs, TaskArgs, WeightArgs, implied};
pub use trained::TrainedArgs;
