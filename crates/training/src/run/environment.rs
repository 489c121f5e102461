//! Reads and writes `environment.json`: where and how the processes of a run were started.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::layout::{ENVIRONMENT, read_json_if_any};
use crate::error::UsageError;
use crate::files::write_json;

/// Where and how a training process was started: one element of `environment.json`. All fields are
/// known when the process begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Date and time in UTC when the process began to train, in RFC 3339 format.
    pub begun: String,
    /// Name of the machine.
    pub host: String,
    /// Command line of the process, quoted for a POSIX shell.
    pub command: String,
    /// Working directory of the process; `None` if it was removed or cannot be read.
    pub directory: Option<String>,
    /// Git revision of the working directory, followed by `-dirty` if tracked files were changed;
    /// `None` without git, or if the directory is not in a repository with a commit.
    pub git_revision: Option<String>,
    /// Number of threads of the CPU backend.
    pub threads: usize,
    /// Version of this library.
    pub version: String,
}

impl Environment {
    /// Returns the environment of this process.
    pub fn current() -> Self {
        let arguments = env::args_os().map(|argument| quoted(&argument.to_string_lossy()));
        let directory = env::current_dir().ok();
        Self {
            begun: now(),
            host: crate::host::name(),
            command: arguments.collect::<Vec<_>>().join(" "),
            directory: directory.map(|path| path.to_string_lossy().into_owned()),
            git_revision: git_revision(),
            threads: rayon::current_num_threads(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Returns the date and time in UTC, to the second, in RFC 3339 format.
pub(crate) fn now() -> String {
    rfc3339(SystemTime::now()).unwrap_or_default()
}

/// Returns a date and time in UTC, to the second, in RFC 3339 format; `None` before 1970 and after
/// 9999.
pub fn rfc3339(at: SystemTime) -> Option<String> {
    let seconds = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds < 253_402_300_800).then(|| humantime::format_rfc3339_seconds(at).to_string())
}

/// Reads the environments of the processes that have trained a run, in the order in which they
/// began.
///
/// Of each group of processes, the list has only rank 0. The list is empty before the run begins to
/// train.
///
/// # Errors
///
/// If the file cannot be read or is damaged. The message names the file.
pub fn read_environments(folder: &Path) -> Result<Vec<Environment>, UsageError> {
    read_json_if_any(&folder.join(ENVIRONMENT))
}

/// Adds the environment of a process to `environment.json`. If `is_first` is true, the run begins
/// with this process, and the file is replaced.
pub(super) fn add_environment(
    folder: &Path,
    environment: &Environment,
    is_first: bool,
) -> Result<()> {
    // A damaged file is replaced, so that the run does not fail because of it.
    let earlier = read_environments(folder).ok().filter(|_| !is_first);
    let mut all = earlier.unwrap_or_default();
    all.push(environment.clone());
    write_json(&folder.join(ENVIRONMENT), &all).context("cannot write environment.json")
}

/// Returns the git revision of the working directory; `None` without git, or if the directory is
/// not in a repository with a commit.
fn git_revision() -> Option<String> {
    let output = Command::new("git")
        .args("describe --always --dirty --abbrev=40 --exclude=*".split(' '))
        // Without this setting, git may write its index, which another git process may have locked.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let revision = String::from_utf8(output.stdout).ok()?;
    let revision = revision.trim();
    (output.status.success() && !revision.is_empty()).then(|| revision.into())
}

/// Returns an argument, quoted if necessary, so that a POSIX shell reads it unchanged.
pub fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.into()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn times_that_have_no_name_are_none() {
        let after = |seconds| rfc3339(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert_eq!(after(0).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(
            after(253_402_300_799).as_deref(),
            Some("9999-12-31T23:59:59Z")
        );
        assert_eq!(after(253_402_300_800), None);
        assert_eq!(
            rfc3339(UNIX_EPOCH - std::time::Duration::from_secs(1)),
            None
        );
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(quoted("--steps=12"), "--steps=12");
        assert_eq!(quoted("runs/copy-1"), "runs/copy-1");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("3 1 4"), "'3 1 4'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn each_process_adds_its_environment() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_environments(folder.path()), Ok(Vec::new()));
        let first = Environment::current();
        assert_eq!(first.threads, rayon::current_num_threads());
        assert!(humantime::parse_rfc3339(&first.begun).is_ok(), "{first:?}");
        let second = Environment {
            command: "train resume run".into(),
            ..first.clone()
        };
        add_environment(folder.path(), &first, true).unwrap();
        add_environment(folder.path(), &second, false).unwrap();
        let read = read_environments(folder.path()).unwrap();
        assert_eq!(read, [first.clone(), second]);
        add_environment(folder.path(), &first, true).unwrap();
        assert_eq!(read_environments(folder.path()).unwrap(), [first]);
        fs::write(folder.path().join(ENVIRONMENT), "{").unwrap();
        let error = read_environments(folder.path()).unwrap_err().to_string();
        assert!(error.contains("environment.json: is damaged"), "{error}");
    }
}
