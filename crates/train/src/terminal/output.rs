//! Prints lines on stdout and stderr, and handles streams that are closed or full.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use anyhow::{Context, Result};
use console::{StyledObject, Term, measure_text_width, style};
use indicatif::ProgressBar;
use serde::Serialize;

use super::capability::width_of;
use super::screen::{self, Stream};

/// How much the program prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only, because another process of the group prints everything else.
    Silent,
    /// Only results, warnings and errors, without the evaluations during training.
    Quiet,
    /// Also progress and notes.
    #[default]
    Normal,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// The progress bar on stderr, which is hidden while a line is printed.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether the terminal was closed. Writing to it then fails.
static IS_HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Sets the verbosity. Only the first call has an effect.
pub(super) fn choose(verbosity: Verbosity) {
    let _ = VERBOSITY.set(verbosity);
}

pub(super) fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Returns whether progress and notes are not printed.
pub fn is_quiet() -> bool {
    verbosity() <= Verbosity::Quiet
}

fn is_silent() -> bool {
    verbosity() == Verbosity::Silent
}

/// Returns a text in which control characters are escaped as in JSON. Whatever a file, a folder's
/// name or a model contains is printed in this form, because a terminal obeys control characters.
pub fn visible(text: &str) -> String {
    escaped(text, &[])
}

/// Returns a text in which all control characters but those in `kept` are escaped.
fn escaped(text: &str, kept: &[char]) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) && !kept.contains(&c) {
            write!(visible, "\\u{:04x}", u32::from(c)).expect("a string can be written");
        } else {
            visible.push(c);
        }
    }
    visible
}

/// Returns whether a program that shows a text may obey the character: one that controls, or one that
/// turns the direction of the text or breaks its line, so that a name could look like another one.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}

/// Prints a line of a result, with visible control characters. While the dashboard owns the screen, the line is held back.
///
/// A closed stdout, as in `train | head`, is not an error, so that a run continues without a
/// reader. Its results are also in its folder.
///
/// # Errors
///
/// If stdout is open, but cannot be written.
pub fn result(line: &str) -> Result<()> {
    marked(line, None)
}

/// Prints the lines of a result, as [`result`] prints each. On a terminal, long lines are broken at
/// spaces.
///
/// # Errors
///
/// If stdout is open, but cannot be written.
pub fn results(lines: &str) -> Result<()> {
    let width = width_of(&Term::stdout());
    let mut lines = lines.lines().map(|line| wrapped(line.into(), width));
    lines.try_for_each(|line| line.lines().try_for_each(result))
}

/// Prints a line of a result as [`result`] does, and a coloured mark after it.
///
/// # Errors
///
/// If stdout is open, but cannot be written.
pub fn marked(line: &str, mark: Option<StyledObject<&str>>) -> Result<()> {
    let mut line = visible(line);
    if let Some(mark) = mark {
        line += &format!("  {mark}");
    }
    if screen::hold(Stream::Stdout, &line) {
        return Ok(());
    }
    write_out(&format!("{line}\n")).map(|_| ())
}

/// Breaks a line at spaces where it is wider than `width` terminal columns; `None` sets no limit. A
/// line that begins with a space, such as a command to copy, is not broken.
fn wrapped(line: String, width: Option<usize>) -> String {
    let Some(width) = width.filter(|_| !line.starts_with(' ')) else {
        return line;
    };
    let (mut lines, mut begin) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let wide = measure_text_width(&lines[begin..]) + measure_text_width(word.trim_end());
        if wide > width && lines.len() > begin {
            lines.replace_range(lines.len() - 1.., "\n");
            begin = lines.len();
        }
        lines += word;
    }
    lines
}

/// Prints a result: as a line of JSON if `json` is true, else the lines that `words` returns.
///
/// # Errors
///
/// If stdout is open, but cannot be written.
pub fn json_or(json: bool, value: &impl Serialize, words: impl FnOnce() -> String) -> Result<()> {
    if json {
        result(&serde_json::to_string(value)?)
    } else {
        results(&words())
    }
}

/// Prints texts of a model at once, without adding a line break, unless the program is silent. A
/// terminal gets their control characters escaped, a file or a pipe as they are. Returns `Break` if
/// stdout is closed.
///
/// # Errors
///
/// If stdout is open, but cannot be written.
pub fn stream(text: &str) -> Result<ControlFlow<()>> {
    if std::io::stdout().is_terminal() {
        write_out(&escaped(text, &['\n', '\t']))
    } else {
        write_out(text)
    }
}

/// Copies texts of a model to a file, as [`stream`] prints them if the file is a terminal.
///
/// # Errors
///
/// If `texts` cannot be read, or the file cannot be written.
pub fn copy(mut texts: impl Read, mut file: &File) -> io::Result<()> {
    if !file.is_terminal() {
        return io::copy(&mut texts, &mut file).map(drop);
    }
    let text = io::read_to_string(texts)?;
    file.write_all(escaped(&text, &['\n', '\t']).as_bytes())
}

fn write_out(text: &str) -> Result<ControlFlow<()>> {
    if is_silent() {
        return Ok(ControlFlow::Continue(()));
    }
    let written = beside_bar(|| {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes());
        written.and_then(|()| stdout.flush())
    });
    match written {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(_) if IS_HUNG_UP.load(Ordering::SeqCst) => Ok(ControlFlow::Break(())),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Records that the terminal was closed. From then on, a stdout that cannot be written is not an
/// error.
pub(super) fn hang_up() {
    IS_HUNG_UP.store(true, Ordering::SeqCst);
}

/// Prints a line on stderr, unless the program is quiet.
pub fn note(line: &str) {
    if !is_quiet() {
        message(line);
    }
}

/// Prints a warning on stderr, unless the program is silent.
pub fn warn(line: &str) {
    if is_silent() {
        return;
    }
    message_after(&style("warning: ").for_stderr().yellow().to_string(), line);
}

/// Prints an error on stderr.
pub fn error(line: &str) {
    message_after(&style("error: ").for_stderr().red().to_string(), line);
}

/// Prints a line on stderr with visible control characters, even if the program is quiet. While the
/// dashboard owns the screen, the line is held back. A stderr that cannot be written is not an error.
pub fn message(line: &str) {
    message_after("", line);
}

/// Prints `begin`, which may have colours, and then a line as [`message`] does.
fn message_after(begin: &str, line: &str) {
    let width = width_of(&Term::stderr());
    let line = &wrapped(format!("{begin}{}", visible(line)), width);
    if !screen::hold(Stream::Stderr, line) {
        // One write for the line and its end, so that other processes print nothing between them.
        let line = format!("{line}\n");
        let _ = beside_bar(|| std::io::stderr().write_all(line.as_bytes()));
    }
}

/// Sets the progress bar that is hidden while a line is printed; `None` removes it.
pub(super) fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().expect("no thread panics with it") = bar;
}

fn beside_bar<T>(write: impl FnOnce() -> T) -> T {
    let bar = BAR.lock().expect("no thread panics with it").clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_obeys_are_visible() {
        let text = "a\u{1b}[2Jb\u{202e}c\u{2066}d\u{61c}e\u{2028} é 日本";
        let expected = "a\\u001b[2Jb\\u202ec\\u2066d\\u061ce\\u2028 é 日本";
        assert_eq!(visible(text), expected);
    }

    #[test]
    fn lines_are_broken_at_spaces() {
        let wrapped = |line: &str, width| wrapped(line.into(), width);
        assert_eq!(wrapped("one two  three", Some(7)), "one two\n three");
        assert_eq!(
            wrapped("\u{1b}[31mone \u{1b}[0mtwo", Some(7)),
            "\u{1b}[31mone \u{1b}[0mtwo"
        );
        assert_eq!(wrapped("a longword 日本", Some(5)), "a\nlongword\n日本");
        for (line, width) in [("  train resume run", Some(5)), ("one two", None)] {
            assert_eq!(wrapped(line, width), line);
        }
    }
}
