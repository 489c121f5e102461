//! `train completions` and `train man`: write completions for shells, and manual pages.

use std::path::Path;
use std::{fs, io};

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
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

/// Writes the manual pages: one for the program, and one for each command that is not hidden.
///
/// # Errors
///
/// A folder that cannot be written.
pub(super) fn man(args: &ManArgs) -> Result<()> {
    let folder = &args.folder;
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let written = fs::create_dir_all(folder).and_then(|()| {
        let commands = program.get_subcommands();
        let shown = commands.filter(|command| !command.is_hide_set());
        shown
            .chain([&program])
            .try_for_each(|command| write_page(command, folder))
    });
    written.map_err(|error| {
        let expected = format!("cannot be written ({error})");
        let usage = UsageError::new("FOLDER", folder.display(), expected);
        unwritable(folder, error, usage)
    })?;
    output::note(&format!("manual pages: {}", folder.display()));
    Ok(())
}

/// Writes the page of a command.
fn write_page(command: &Command, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // The synopsis is the usage line. clap_mangen's own synopsis would list all flags.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).text([roman(usage)]);
    synopsis.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if command
        .get_after_long_help()
        .or(command.get_after_help())
        .is_some()
    {
        man.render_extra_section(&mut page)?;
    }
    fs::write(folder.join(man.get_filename()), page)
}
