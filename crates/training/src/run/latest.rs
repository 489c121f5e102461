//! Finds the runs in a folder, and the run that was changed last.

use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use super::layout::{CONFIG, LOCK, METRICS, STATUS, SUMMARY, is_missing};
use crate::error::UsageError;

/// Folder that holds the folders of new runs by default, relative to the working directory.
pub const RUNS: &str = "runs";

/// Name of the folder of cached tokenisers and tokenised corpora, beside the runs.
pub(super) const CACHE: &str = "cache";

/// Name that stands for the run that was changed last.
pub(crate) const LATEST: &str = "latest";

/// Returns the folders in `parent` that hold a run or some of its files, in no particular order.
///
/// # Errors
///
/// If `parent` cannot be read.
pub fn run_folders(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let files = [CONFIG, METRICS, LOCK];
        // A run that cannot be read is listed, too, so that it can be named.
        if !is_cache(&path) && files.iter().any(|name| !is_missing(&path.join(name))) {
            folders.push(path);
        }
    }
    Ok(folders)
}

/// Returns whether a folder is that of tokenised corpora, which has a lock but is not a run.
pub fn is_cache(path: &Path) -> bool {
    path.ends_with(CACHE) && !path.join(CONFIG).exists()
}

/// Returns when training last changed a run folder; `None` if the folder has no file of a run.
/// Plots and evaluations of a finished run do not count as changes.
pub fn changed(folder: &Path) -> Option<SystemTime> {
    let files = [CONFIG, METRICS, STATUS, SUMMARY];
    let times = files.map(|name| fs::metadata(folder.join(name)).and_then(|it| it.modified()));
    times.into_iter().filter_map(Result::ok).max()
}

/// Returns the folder of a run. The name `latest` stands for the run in the folder `runs` that was
/// changed last, unless a file or folder has that name. Any other path is returned unchanged.
///
/// # Errors
///
/// If the name is `latest` and there is no run.
pub fn find_run(name: &Path) -> Result<PathBuf, UsageError> {
    if name == Path::new(LATEST) && !name.exists() {
        latest_in(Path::new(RUNS))
    } else {
        Ok(name.into())
    }
}

fn latest_in(parent: &Path) -> Result<PathBuf, UsageError> {
    let folders = run_folders(parent).unwrap_or_default();
    let runs = folders.into_iter().filter(|it| it.join(CONFIG).exists());
    // If runs were changed at the same time, the last path in sorting order wins.
    let dated = runs.filter_map(|folder| Some((changed(&folder)?, folder)));
    let latest = dated.max().map(|(_, folder)| folder);
    latest.ok_or_else(|| {
        let parent = absolute(parent).unwrap_or(parent.into());
        let parent = parent.display();
        let what = format!("there is no run in {parent}; name the folder of a run");
        UsageError::argument("run", LATEST, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    #[test]
    fn the_latest_run_is_the_one_that_was_changed_last() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let error = latest_in(&parent.join("none")).unwrap_err().to_string();
        let none = format!("there is no run in {}", parent.join("none").display());
        assert!(error.contains(&none), "{error}");
        assert!(latest_in(parent).is_err());

        let begin = SystemTime::now() - Duration::from_secs(1000);
        let touch = |path: &str, seconds| {
            let path = parent.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(&path).unwrap();
            file.set_modified(begin + Duration::from_secs(seconds))
                .unwrap();
        };
        touch("cache/tokens", 900);
        touch("cache/lock", 900);
        touch("old/config.json", 1);
        touch("new/config.json", 2);
        assert_eq!(latest_in(parent), Ok(parent.join("new")));
        touch("old/metrics.jsonl", 3);
        assert_eq!(latest_in(parent), Ok(parent.join("old")));
        // `lengths.json` does not count: an evaluation of the run `new` does not make it the
        // latest.
        touch("new/lengths.json", 4);
        assert_eq!(latest_in(parent), Ok(parent.join("old")));
        // A folder without `config.json` cannot be the latest run.
        touch("broken/metrics.jsonl", 5);
        assert_eq!(latest_in(parent), Ok(parent.join("old")));
        assert_eq!(run_folders(parent).unwrap().len(), 3);
    }

    #[test]
    fn other_names_are_paths() {
        let path = Path::new("runs/copy-1");
        assert_eq!(find_run(path), Ok(path.into()));
    }
}
