//! The terminal's screen and modes, while the dashboard has them.

use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use terminal::{let_signals_through, remember_modes};

/// Whether the dashboard has the screen.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Marks the screen as taken by the dashboard.
pub(super) fn take() {
    IS_TAKEN.store(true, Ordering::SeqCst);
}

/// Whether the dashboard has the screen.
pub(super) fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::SeqCst)
}

/// Restores the terminal as it was before the dashboard; does nothing without one. It may be called
/// at the end of a process whose other threads are still drawing.
pub(super) fn restore() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        terminal::restore();
    }
}

#[cfg(unix)]
mod terminal {
    use std::io::Write;
    use std::sync::Mutex;

    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// Remembers the terminal's modes. Call it before the dashboard changes them.
    pub fn remember_modes() {
        *BEFORE.lock().expect("no thread panics with it") = tcgetattr(std::io::stdin()).ok();
    }

    /// Makes Ctrl-C send a signal again, which the dashboard switches off to receive all keys.
    pub fn let_signals_through() {
        if let Ok(mut modes) = tcgetattr(std::io::stdin())
            && !modes.local_modes.contains(LocalModes::ISIG)
        {
            modes.local_modes |= LocalModes::ISIG;
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
        }
    }

    /// Switches mouse events off, leaves the alternate screen, shows the cursor, and restores the
    /// modes.
    pub(super) fn restore() {
        let mut stdout = std::io::stdout();
        let _ =
            stdout.write_all(b"\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1049l\x1b[?25h");
        let _ = stdout.flush();
        if let Some(modes) = &*BEFORE.lock().expect("no thread panics with it") {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
        }
    }
}

#[cfg(not(unix))]
mod terminal {
    pub fn remember_modes() {}
    pub fn let_signals_through() {}
    pub(super) fn restore() {}
}
