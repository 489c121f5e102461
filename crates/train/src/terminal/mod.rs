//! Output for the user: results on stdout, progress and notes on stderr.

mod about;
mod capability;
mod chart;
mod dashboard;
mod interrupt;
mod line_progress;
mod live_run;
mod notes;
pub mod output;
mod prompt;
mod run_view;
mod screen;
mod series;
mod status;
pub mod table;

pub use about::{About, describe};
pub use capability::width_of;
pub use line_progress::LineProgress;
pub use notes::end_progress;
pub use output::Verbosity;
pub use prompt::{Prompt, Reply};
pub use run_view::RunView;

#[cfg(unix)]
use std::sync::Arc;

/// Prepares the terminal for the output of the program.
///
/// Sets the verbosity and the colours, shows the messages of the crate `training`, and makes a
/// panic restore the screen before the panic message is printed. While `training` turns panics of a
/// dependency into errors, panics have no effect on the terminal.
pub fn set_up(verbosity: Verbosity, may_have_colors: bool) {
    output::choose(verbosity);
    // The crate `console` knows the streams, `CLICOLOR` and `CLICOLOR_FORCE`.
    if !may_have_colors || capability::variable("NO_COLOR").is_some() {
        console::set_colors_enabled(false);
        console::set_colors_enabled_stderr(false);
    }
    notes::listen();
    // A file that reaches `ulimit -f` is then an error of the write, as on a full disk.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !training::contain::is_contained() {
            screen::restore();
            print(panic);
        }
    }));
}
