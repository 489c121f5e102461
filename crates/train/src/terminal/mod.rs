//! Output for the user: results on stdout, progress and notes on stderr.

mod dashboard;
mod interrupt;
mod line_progress;
mod notes;
pub mod output;
mod plain;
mod run_view;
mod screen;
mod status;

pub use line_progress::LineProgress;
pub use notes::{end_progress, listen};
pub use run_view::RunView;
