//! The program `train`: command line, terminal output and plots for the library `training`.
//!
//! Three parts handle a call. [`args`] parses the command line into the arguments of a command,
//! which become a `training::config::RunConfig` or a search configuration. [`commands`] runs the
//! command with the library. [`terminal`] prints results on stdout and everything else on stderr,
//! so that `train generate RUN < lines > outputs` works as a pipe.
//!
//! Errors are returned to `main`. The error about a wrong setting names a path such as
//! `optimization.steps`, and [`args::flags`] turns the path into the flag that sets it. [`exit`]
//! has the exit codes.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the flags of each command, the values that they take, which flag sets which setting |
//! | [`commands`] | a file for each command; `fit` and `resume` share `train`, which is the main job |
//! | [`device`] | the backends of this build, and which one runs |
//! | [`exit`] | the exit codes |
//! | [`plot`] | curves, attention maps and the paper's figures, as SVG and PNG |
//! | [`report`] | runs as one HTML page |
//! | [`terminal`] | dashboard, progress line, notes of the library, colours, Ctrl-C |
//!
//! A new command needs a file in `args` and one in `commands`, a variant of `args::Command` and an
//! arm in `commands::run`; `docs/architecture.md` has the steps.

#![recursion_limit = "256"]

mod args;
mod commands;
mod device;
mod exit;
mod plot;
mod report;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Cli, describe_mistake, flags};
use exit::Exit;
use terminal::{Verbosity, output};

// Burn allocates and frees whole tensors all the time. The system's allocator would return their
// pages to the kernel, and each new tensor would fault them in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes the allocator keep freed pages, because the next step needs all of them again and the
/// kernel would have to clear each one. The environment variable `MIMALLOC_PURGE_DELAY` takes
/// precedence.
#[allow(unsafe_code)]
fn keep_freed_pages() {
    /// The option `mi_option_purge_delay`, in milliseconds. A negative value means never.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: the call only sets a number that the allocator reads. No other thread is running yet.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, -1) };
}

fn main() -> ExitCode {
    keep_freed_pages();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let cli = match Cli::parse_words(&words) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            output::message(&describe_mistake(&error, &words));
            return Exit::Usage.into();
        }
        Err(help_or_version) => help_or_version.exit(),
    };
    terminal::set_up(
        Verbosity::of(cli.global.quiet, cli.global.verbose),
        cli.global.color,
    );
    if words.is_empty() {
        output::note("training the copy task; `train --help` lists commands and examples");
    }
    match commands::run(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&flags::describe(&error));
            Exit::of_error(&error).into()
        }
    }
}
