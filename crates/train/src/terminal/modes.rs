//! Changes and restores the keyboard modes of the terminal.

pub(super) use system::{pass_keys, restore};

#[cfg(unix)]
mod system {
    use std::io::stdin;
    use std::sync::Mutex;

    use rustix::termios::{
        InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    };

    /// Character code that disables a special key of the terminal (`_POSIX_VDISABLE`).
    const NO_KEY: u8 = if cfg!(any(target_os = "linux", target_os = "android")) {
        0
    } else {
        0xff
    };

    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// Makes the terminal pass each key to the program at once, without showing it. Returns whether
    /// stdin allows this.
    ///
    /// Ctrl-C still sends a signal, so that it works even if the thread that reads keys is blocked.
    pub fn pass_keys() -> bool {
        let Ok(before) = tcgetattr(stdin()) else {
            return false;
        };
        let mut modes = before.clone();
        modes.local_modes |= LocalModes::ISIG;
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        // Ctrl-S would stop the output of the terminal, and block the thread that draws.
        modes.input_modes -= InputModes::IXON;
        // These keys would stop or end the process without restoring the screen.
        modes.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
        modes.special_codes[SpecialCodeIndex::VQUIT] = NO_KEY;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        let is_set = tcsetattr(stdin(), OptionalActions::Now, &modes).is_ok();
        if is_set {
            *BEFORE.lock().expect("no thread panics with it") = Some(before);
        }
        is_set
    }

    /// Restores the modes that the terminal had before [`pass_keys`].
    pub fn restore() {
        if let Some(modes) = BEFORE.lock().expect("no thread panics with it").take() {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
    }
}

#[cfg(not(unix))]
mod system {
    use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

    /// Makes the terminal pass each key to the program at once, without showing it. Returns whether
    /// stdin allows this.
    pub fn pass_keys() -> bool {
        enable_raw_mode().is_ok()
    }

    /// Restores the modes that the terminal had before [`pass_keys`].
    pub fn restore() {
        let _ = disable_raw_mode();
    }
}
