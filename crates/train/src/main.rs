//! The program `train`: command line, terminal output and plots for the library `training`.
//!
//! Three modules handle an invocation. [`commands`] parses the command line into the arguments of a
//! command, with the parsers of [`args`], and runs it with the library. The arguments of `fit` become
//! a `training::config::RunConfig`, and those of `generate` a `GenerateConfig`. [`terminal`] prints results
//! on stdout, and messages and progress on stderr, so that `train generate RUN < lines > outputs`
//! works as a pipe. The dashboard and the prompt, which need a terminal, use stdout, too.
//!
//! Errors are returned to `run`. An error about a wrong setting contains the path of the setting,
//! such as `optimization.steps`, and [`args::flags`] replaces the path by the flag that sets it.
//! [`exit`] has the exit codes.
//!
//! | module | contents |
//! |---|---|
//! | [`allocator`] | the memory allocator |
//! | [`args`] | flags that several commands or files share, and the map from settings to flags |
//! | [`commands`] | the command line, its mistakes, and each command; `fit` and `resume` share `commands/train.rs` |
//! | [`device`] | the backends of this build, and the choice of one of them |
//! | [`exit`] | the exit codes |
//! | [`group`] | the processes that an MPI launcher has started |
//! | [`number`] | numbers, durations and sizes as readable text |
//! | [`plot`] | curves and attention maps, as SVG |
//! | [`report`] | runs as one HTML page |
//! | [`terminal`] | dashboard, progress line, notes of the library, colours, Ctrl-C |
//!
//! A new command needs a file in `commands` and an arm in `Cli::run`. `docs/architecture.md`
//! describes the steps.

#![recursion_limit = "256"]

mod allocator;
mod args;
mod commands;
mod device;
mod exit;
mod group;
mod metric;
mod number;
mod plot;
mod report;
mod terminal;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use args::flags;
use commands::{Cli, describe_mistake};
use exit::Exit;
use group::Group;
use terminal::{Verbosity, output};

fn main() -> ExitCode {
    ExitCode::from(run() as u8)
}

/// Runs the command line of this process, and returns how it ended.
fn run() -> Exit {
    allocator::keep_freed_pages();
    let group = Group::join();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Err(error) = group.check_words(&words) {
        return group.fail(&error.to_string(), Exit::Usage);
    }
    let cli = match Cli::parse_words(&words) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            if group.is_first() {
                let mistake = describe_mistake(&error, &words);
                output::message(&format!("error: {mistake}"));
            }
            return Exit::Usage;
        }
        Err(help) => {
            if group.is_first() {
                let printed = help.print().and_then(|()| io::stdout().flush());
                // A closed stdout is not an error, here as for all output.
                if let Err(error) = printed
                    && error.kind() != ErrorKind::BrokenPipe
                {
                    let what = format!("cannot write to standard output: {error}");
                    return group.fail(&what, Exit::Failure);
                }
            }
            return Exit::Success;
        }
    };
    let verbosity = if !group.is_first() {
        Verbosity::Silent
    } else if cli.global.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    // A launcher may give its processes pseudo-terminals even if its own output is a file.
    terminal::set_up(verbosity, !group.collective().has_launcher());
    if words.is_empty() {
        output::note("training the copy task; `train --help` lists commands and examples");
    }
    cli.run(&group).unwrap_or_else(|error| {
        let (exit, what) = (Exit::of_error(&error), flags::describe(&error));
        if allocator::is_first_to_say() {
            group.fail(&what, exit)
        } else {
            exit
        }
    })
}
