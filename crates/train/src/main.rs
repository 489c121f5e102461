//! Parse, validate, run. Exit codes: 0 done, 1 failed, 2 wrong usage or input.

use std::process::ExitCode;

use clap::Parser;
use train::cli::{Cli, Command, one_line};
use train::error::UsageError;
use train::{command, output};

// Burn allocates and frees whole tensors all the time; the system's allocator gives their pages
// back to the kernel and faults them in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keeps pages that were freed: a step asks for all of them again, and the kernel would clear them
/// each time. The environment's `MIMALLOC_PURGE_DELAY` counts for more.
#[allow(unsafe_code)]
fn keep_freed_pages() {
    /// `mi_option_purge_delay`, in milliseconds, negative for never.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: It sets a number that the allocator reads; no other thread is there yet.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, -1) };
}

fn main() -> ExitCode {
    keep_freed_pages();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error")),
        )
        .with_writer(std::io::stderr)
        .init();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            output::note(&one_line(&error));
            return ExitCode::from(2);
        }
        Err(help_or_version) => help_or_version.exit(),
    };
    let outcome = match cli.command {
        None => command::fit::run(&cli.fit),
        Some(Command::Fit(args)) => command::fit::run(&args),
        Some(Command::Resume(args)) => command::fit::resume(&args),
        Some(Command::Generate(args)) => command::generate::run(&args),
        Some(Command::Eval(args)) => command::eval::run(&args),
        Some(Command::Score(args)) => command::score::run(&args),
        Some(Command::Plot(args)) => command::plot::run(&args),
        Some(Command::Import(args)) => command::weights::import(&args),
        Some(Command::Export(args)) => command::weights::export(&args),
        Some(Command::Inspect(args)) => command::weights::inspect(&args),
        Some(Command::Bench(args)) => command::bench::run(&args),
        Some(Command::Backends) => command::backends::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error:#}"));
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}
