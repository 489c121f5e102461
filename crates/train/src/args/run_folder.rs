//! Parses the folder of a run, given by its path or as `latest`.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use training::run::find_run;

/// Returns the parser of a flag that names the folder of an existing run. The name `latest` becomes
/// the path of the run that was changed last in the folder `runs`.
pub fn run_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| find_run(&path).map_err(|error| error.expected))
}
