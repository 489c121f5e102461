//! A prompt for lines that the user types, with line editing and a history.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::{Config, Editor, history::FileHistory};
use training::files::read_regular;

use super::output;

/// Maximum number of lines in the history.
const HISTORY: usize = 1000;

/// Lets a signal end the program as it ends others, with the terminal as it was before the prompt.
#[cfg(unix)]
fn restore_at_signals() -> io::Result<()> {
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    use signal_hook::{consts, iterator::Signals, low_level::emulate_default_handler};
    use std::io::Write as _;
    let settings = tcgetattr(io::stdin())?;
    let mut signals = Signals::new([consts::SIGINT, consts::SIGTERM, consts::SIGHUP])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            _ = tcsetattr(io::stdin(), OptionalActions::Now, &settings);
            // Pasted texts lose their marks, and the shell begins a new line.
            _ = io::stdout().write_all(b"\x1b[?2004l\n");
            _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// Shows the control characters of lines, which may have been pasted or come from the history,
/// instead of sending them to the terminal.
struct Escaping;

impl rustyline::Helper for Escaping {}

impl rustyline::completion::Completer for Escaping {
    type Candidate = String;

    /// Tab types a blank, as it stands between words elsewhere.
    fn complete(
        &self,
        _: &str,
        at: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((at, vec![" ".into()]))
    }
}

impl rustyline::hint::Hinter for Escaping {
    type Hint = String;
}

impl rustyline::validate::Validator for Escaping {}

impl rustyline::highlight::Highlighter for Escaping {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> std::borrow::Cow<'l, str> {
        output::visible(line).into()
    }
}

/// What the user typed at a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line, without its line break.
    Line(String),
    /// The user abandoned the line with Ctrl-C.
    Left,
    /// The user ended the input with Ctrl-D.
    End,
}

/// Asks for lines at a terminal.
pub struct Prompt {
    /// The line editor, which draws on stdout.
    editor: Editor<Escaping, FileHistory>,
    /// File of the history; `None` if there is no folder for the file, or if the file cannot be
    /// used.
    history: Option<PathBuf>,
    /// Lines of a pasted text that [`Prompt::ask`] has not returned yet.
    pasted: VecDeque<String>,
}

impl Prompt {
    /// Opens a prompt, with the history of earlier prompts.
    ///
    /// # Errors
    ///
    /// A terminal that cannot be used.
    pub fn open() -> Result<Self> {
        #[cfg(unix)]
        restore_at_signals().context("cannot open a prompt")?;
        let config = Config::builder().history_ignore_space(true);
        // Without colours, rustyline would show control characters as they are.
        let config = config.color_mode(rustyline::ColorMode::Forced).build();
        let mut editor = Editor::with_config(config).context("cannot open a prompt")?;
        editor.set_helper(Some(Escaping));
        editor.set_max_history_size(HISTORY)?;
        let mut load = |path: &PathBuf| {
            read_regular(path, 1)?;
            editor.load_history(path)
        };
        let history = history_file().filter(|path| match load(path) {
            Ok(()) => true,
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => {
                let path = path.display();
                output::warn(&format!("the history {path} cannot be read ({error})"));
                false
            }
        });
        Ok(Self {
            editor,
            history,
            pasted: VecDeque::new(),
        })
    }

    /// Shows `prompt` and waits for a line, unless a line of a pasted text is left.
    ///
    /// # Errors
    ///
    /// A terminal that cannot be read.
    pub fn ask(&mut self, prompt: &str) -> Result<Reply> {
        if let Some(line) = self.pasted.pop_front() {
            return Ok(Reply::Line(line));
        }
        let read = loop {
            match self.editor.readline(prompt) {
                Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    output::error("the line is not UTF-8");
                }
                read => break read,
            }
        };
        match read {
            Ok(text) => {
                self.pasted.extend(text.lines().map(String::from));
                for line in text.lines() {
                    self.remember(line);
                }
                Ok(Reply::Line(self.pasted.pop_front().unwrap_or_default()))
            }
            Err(ReadlineError::Interrupted) => Ok(Reply::Left),
            Err(ReadlineError::Eof) => Ok(Reply::End),
            Err(error) => Err(error).context("cannot read from the terminal"),
        }
    }

    /// Adds a line to the history. The line is written to the file at once, because Ctrl-C may end
    /// the program during the computation that follows.
    fn remember(&mut self, line: &str) {
        let is_new = self.editor.add_history_entry(line).unwrap_or(false);
        let Some(path) = self.history.take_if(|_| is_new) else {
            return;
        };
        let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.map_err(ReadlineError::from);
        match written.and_then(|()| self.editor.append_history(&path)) {
            Ok(()) => self.history = Some(path),
            Err(error) => {
                let path = path.display();
                output::warn(&format!("the history {path} cannot be written ({error})"));
            }
        }
    }
}

/// Returns the path of the history file, in the folder where the user's programs keep their state;
/// `None` if the environment does not name such a folder.
fn history_file() -> Option<PathBuf> {
    let folder = |name| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = folder("XDG_STATE_HOME")
        .or_else(|| Some(folder("HOME")?.join(".local/state")))
        .or_else(|| folder("LOCALAPPDATA"))?;
    Some(state.join("train/history"))
}
