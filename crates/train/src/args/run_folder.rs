//! Parses the folder of a run, given by its path or as `latest`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use training::run::find_run;
use training::run::layout::{CHECKPOINTS, CONFIG};

/// Returns the parser of an argument for the folder of a run. The name `latest` becomes the path of
/// the most recently changed run in the folder `runs`, unless a file or folder has this name. The
/// parser rejects an empty path, the folder of a checkpoint, and `latest` if there is no run. It
/// does not check other paths.
pub fn run_folder() -> impl TypedValueParser<Value = PathBuf> {
    RunFolderParser
}

#[derive(Clone)]
struct RunFolderParser;

impl TypedValueParser for RunFolderParser {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, Error> {
        let name = command.get_name().to_owned();
        let mut flags = command.get_arguments();
        let has_flag = flags.any(|arg| arg.get_long() == Some("checkpoint"));
        let parser = PathBufValueParser::new().try_map(move |path| {
            let run = find_run(&path).map_err(|error| error.expected)?;
            match of_checkpoint(&run, &name, has_flag) {
                Some(what) => Err(what),
                None => Ok(run),
            }
        });
        parser.parse_ref(command, arg, value)
    }
}

/// Returns an error message if `path` is the folder of a checkpoint instead of the folder of a run;
/// otherwise `None`. `has_flag` says whether the command `name` has `--checkpoint`. If so, the
/// message suggests a call of this command with the flag.
fn of_checkpoint(path: &Path, name: &str, has_flag: bool) -> Option<String> {
    let step = path.file_name()?.to_str()?.strip_prefix("step-")?;
    let step: usize = step.parse().ok()?;
    let whole = absolute(path).ok()?;
    let (given, whole) = (path.parent()?, whole.parent()?);
    if !whole.ends_with(CHECKPOINTS) || !whole.parent()?.join(CONFIG).exists() {
        return None;
    }
    // A relative path such as `step-12` does not contain the folder of the run. In this case, the
    // message names the absolute path of the run.
    let given = given.parent().filter(|run| !run.as_os_str().is_empty());
    let run = given.or(whole.parent())?.display();
    Some(if has_flag {
        format!("is a checkpoint; name its run: train {name} {run} --checkpoint {step}")
    } else {
        format!("is a checkpoint; name its run, {run}")
    })
}
