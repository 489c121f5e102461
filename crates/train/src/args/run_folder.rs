//! Parses the folder of a run, given by its path or as `latest`.

use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};

use clap::CommandFactory;
use clap::builder::{PathBufValueParser, TypedValueParser};
use training::run::find_run;
use training::run::layout::{CHECKPOINTS, CONFIG};

use super::cli::{Cli, complete};

/// Returns the parser of a flag that names the folder of an existing run. The name `latest` becomes
/// the path of the run that was changed last in the folder `runs`.
pub fn run_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let run = find_run(&path).map_err(|error| error.expected)?;
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        match of_checkpoint(&run, &words) {
            Some(what) => Err(what),
            None => Ok(run),
        }
    })
}

/// Returns the error for the folder of a checkpoint, which is given instead of its run; `None` for
/// another path. `words` is the command line.
fn of_checkpoint(path: &Path, words: &[OsString]) -> Option<String> {
    let step = path.file_name()?.to_str()?.strip_prefix("step-")?;
    let step: usize = step.parse().ok()?;
    let whole = absolute(path).ok()?;
    let (given, whole) = (path.parent()?, whole.parent()?);
    if !whole.ends_with(CHECKPOINTS) || !whole.parent()?.join(CONFIG).exists() {
        return None;
    }
    // A relative path such as `step-12` does not have the folder of the run.
    let given = given.parent().filter(|run| !run.as_os_str().is_empty());
    let run = given.or(whole.parent())?.display();
    let (words, at) = complete(words);
    let name = words.get(at)?.to_string_lossy();
    let cli = Cli::command();
    let command = cli.find_subcommand(name.as_ref())?;
    let has_flag = command
        .get_arguments()
        .any(|arg| arg.get_long() == Some("checkpoint"));
    Some(match has_flag {
        true => {
            format!("is a checkpoint; name its run: train {name} {run} --checkpoint {step}")
        }
        false => format!("is a checkpoint; name its run, {run}"),
    })
}
