//! `train import`, `train export` and `train inspect`: weights of other programs.

mod error;
mod export;
mod import;
mod inspect;
mod output_file;

pub use export::{ExportArgs, run as export};
pub use import::{ImportArgs, run as import};
pub use inspect::{InspectArgs, run as inspect};
