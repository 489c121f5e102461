//! `train completions` and `train man`: write completions for shells, and manual pages.

use std::fs;

use anyhow::Result;
use clap::CommandFactory;
use training::error::{UsageError, unwritable};

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::terminal::output;

/// Prints the completions for a shell.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "train", &mut script);
    let script = String::from_utf8(script)?;
    output::result(script.trim_end())
}

/// Writes the manual pages, one for each command.
///
/// # Errors
///
/// A folder that cannot be written.
pub(super) fn man(args: &ManArgs) -> Result<()> {
    let folder = &args.folder;
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| {
        let expected = format!("cannot be written ({error})");
        let usage = UsageError::new("FOLDER", folder.display(), expected);
        unwritable(folder, error, usage)
    })?;
    output::note(&format!("manual pages: {}", folder.display()));
    Ok(())
}
