//! Parses the folder of a run, given by its path or as `latest`.

use std::path::{Path, PathBuf, absolute};

use clap::builder::{PathBufValueParser, TypedValueParser};
use training::run::find_run;
use training::run::layout::{CHECKPOINTS, CONFIG};

/// Returns the parser of an argument for the folder of a run. The name `latest` becomes the path of
/// the most recently changed run in the folder `runs`, unless a file or folder has this name. The
/// parser rejects an empty path, the folder of a checkpoint, and `latest` if there is no run. It
/// does not check other paths.
pub fn run_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let run = find_run(&path).map_err(|error| error.expected)?;
        match run_of_checkpoint(&run) {
            Some(of) => Err(format!("is a checkpoint; name its run, {}", of.display())),
            None => Ok(run),
        }
    })
}

/// Returns the folder of the run if `path` is the folder of one of its checkpoints. It is relative
/// if `path` contains it.
fn run_of_checkpoint(path: &Path) -> Option<PathBuf> {
    let whole = absolute(path).ok()?;
    let run = whole.parent()?.parent()?;
    let is_checkpoint = whole.parent()?.ends_with(CHECKPOINTS) && run.join(CONFIG).exists();
    let near = path.parent().and_then(Path::parent);
    let near = near.filter(|near| !near.as_os_str().is_empty());
    is_checkpoint.then(|| near.unwrap_or(run).into())
}
