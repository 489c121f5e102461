//! Output for the user: results on stdout, progress and notes on stderr.

mod about;
mod capability;
mod chart;
mod closing;
mod color;
mod dashboard;
mod follower;
mod interrupt;
mod line_progress;
mod live_run;
mod modes;
mod notes;
pub mod output;
mod plain;
mod prompt;
mod run_view;
mod screen;
mod series;
mod status;
pub mod table;

pub use about::About;
pub use color::ColorChoice;
pub use follower::Follower;
pub use line_progress::LineProgress;
pub use notes::end_progress;
pub use output::Verbosity;
pub use prompt::{Prompt, Reply};
pub use run_view::RunView;

/// Prepares the terminal for the output of the program.
///
/// Sets the verbosity and the colours, shows the messages of the crate `training`, and makes a
/// panic restore the screen before the panic message is printed. While `training` turns panics of a
/// dependency into errors, panics have no effect on the terminal.
pub fn set_up(verbosity: Verbosity, color: ColorChoice) {
    output::choose(verbosity);
    color.apply();
    notes::listen();
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !training::contain::is_contained() {
            screen::restore();
            print(panic);
        }
    }));
}
