//! The dashboard, which shows a training run on the whole screen.

mod controls;
mod view;

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};

use super::about::About;
use super::live_run::LiveRun;
use super::{chart, interrupt, screen};
use controls::{Controls, Request};

/// Maximum time between a key and its effect, and minimum time between two frames.
const TICK: Duration = Duration::from_millis(100);

/// Minimum time between two frames while no key is pressed.
const FRAME: Duration = Duration::from_millis(250);

/// Dashboard of a run. A separate thread draws it. Dropping the value restores the screen.
pub(super) struct Dashboard(JoinHandle<()>);

impl Dashboard {
    /// Opens the dashboard of a run; `None` if the terminal cannot show it.
    pub(super) fn open(run: Arc<Mutex<LiveRun>>, about: About) -> Option<Self> {
        if !screen::take() {
            return None;
        }
        let show = move || {
            if show(&run, &about).is_err() {
                screen::restore();
            }
        };
        let thread = thread::Builder::new().name("dashboard".into()).spawn(show);
        let thread = thread.inspect_err(|_| screen::restore()).ok()?;
        Some(Self(thread))
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        screen::restore();
        // The wait has a limit, because the thread does not end if the terminal accepts no output.
        let begun = Instant::now();
        while !self.0.is_finished() && begun.elapsed() < 5 * TICK {
            thread::sleep(TICK / 20);
        }
    }
}

/// Draws the run and receives keys until the screen is restored.
fn show(run: &Mutex<LiveRun>, about: &About) -> io::Result<()> {
    let mut terminal = Terminal::new(CrosstermBackend::new(Output::default()))?;
    let mut controls = Controls::default();
    let has_color = console::colors_enabled();
    let (mut drawn, mut known) = (None::<Instant>, Vec::new());
    while screen::is_taken() {
        let has_key = receive(&mut controls);
        controls.stops |= interrupt::requested_by().is_some();
        if drawn.is_some_and(|at| at.elapsed() < FRAME) && !has_key {
            continue;
        }
        drawn = Some(Instant::now());
        // The chart that is shown stays where another one gets its first data.
        let kinds = chart::kinds(&screen::lock(run));
        if let Some(shown) = known.get(controls.chart % known.len().max(1)) {
            controls.chart = kinds.iter().position(|kind| kind == shown).unwrap_or(0);
        }
        known = kinds;
        terminal.draw(|frame| {
            let run = screen::lock(run);
            view::draw(frame, &run, about, &controls, has_color, Instant::now());
        })?;
    }
    Ok(())
}

/// Waits for [`TICK`], and handles the keys that are pressed meanwhile. Returns whether there was
/// an event that a frame should show, such as a key or a resize.
fn receive(controls: &mut Controls) -> bool {
    let begun = Instant::now();
    let left = || TICK.saturating_sub(begun.elapsed());
    // A closed terminal sends no keys, but the run continues.
    let no_keys = |_| {
        thread::sleep(left());
        false
    };
    let mut has_key = false;
    while event::poll(left()).unwrap_or_else(no_keys) {
        match event::read() {
            Ok(Event::Key(key)) => match controls.key(key) {
                Some(Request::Stop(key)) => interrupt::stop_by_key(key),
                Some(Request::StopAtOnce) => interrupt::stop_at_once(interrupt::CTRL_C),
                None => {}
            },
            Ok(_) => {}
            Err(_) => thread::sleep(left()),
        }
        has_key = true;
    }
    has_key
}

/// Collects the output of a frame. Writes it in one piece if the dashboard still owns the screen.
#[derive(Default)]
struct Output(Vec<u8>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        screen::draw(&self.0);
        self.0.clear();
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
