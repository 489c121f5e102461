//! Implementations of the commands.

mod backends;
mod bench;
mod cli;
mod completions;
mod dialog;
mod dry_run;
mod eval;
mod fit;
mod generate;
mod hypotheses;
mod lengths;
mod mistakes;
mod plot;
mod presets;
mod report;
mod results;
mod resume;
mod runs;
mod score;
mod text_scorer;
mod tokenize;
mod train;
mod trained;
mod translations;
mod weights;

pub use cli::Cli;
pub use mistakes::describe as describe_mistake;
