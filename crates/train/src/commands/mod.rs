//! Implementations of the commands.

mod backends;
mod bench;
mod eval;
mod fit;
mod generate;
mod lengths;

mod plot;
mod report;
mod results;
mod resume;
mod run;
mod score;
mod tokenize;
mod train;
mod trained;
mod translations;
mod weights;

pub use run::run;
