//! Gives the screen of the terminal to the dashboard, and holds back other output until the screen
//! is restored.

use std::collections::VecDeque;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Whether the dashboard owns the screen.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Lines that are held back until the screen is restored.
static HELD: Mutex<Held> = Mutex::new(Held {
    lines: VecDeque::new(),
    dropped: 0,
});

/// Lock that a thread holds while it writes to the screen.
static WRITING: Mutex<()> = Mutex::new(());

/// Lock that a thread holds while it restores the screen.
static RESTORING: Mutex<()> = Mutex::new(());

/// Maximum time that [`restore`] waits for [`RESTORING`] and for [`WRITING`]. A thread that writes
/// to a suspended terminal keeps its lock, because the terminal accepts no output.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of lines that are held back. With `RUST_LOG=debug` there would be millions.
const MAX_HELD: usize = 10_000;

/// Escape sequences that enter the alternate screen, clear it and hide the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";

/// Escape sequences that reset the style, show the cursor and restore the screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// The stream that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Default)]
struct Held {
    lines: VecDeque<(Stream, String)>,
    /// Number of lines that were dropped because there were more than [`MAX_HELD`]. The oldest
    /// lines are dropped first.
    dropped: usize,
}

/// Gives the screen to the dashboard. Returns whether the terminal allows it.
pub(super) fn take() -> bool {
    let has_keys = enable_raw_mode().is_ok();
    if has_keys {
        IS_TAKEN.store(true, Ordering::SeqCst);
        draw(ENTER);
    }
    has_keys
}

/// Returns whether the dashboard owns the screen.
pub(super) fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::SeqCst)
}

/// Writes `bytes` to the screen if the dashboard owns it. A terminal that cannot be written is not
/// an error.
pub(super) fn draw(bytes: &[u8]) {
    let _writing = lock(&WRITING);
    if is_taken() {
        write(bytes);
    }
}

/// Holds back a line until the screen is restored. Returns `false` if the dashboard does not own
/// the screen. The caller then prints the line at once.
pub(super) fn hold(stream: Stream, line: &str) -> bool {
    let mut held = lock(&HELD);
    if !is_taken() {
        return false;
    }
    held.lines.push_back((stream, line.into()));
    if held.lines.len() > MAX_HELD {
        held.lines.pop_front();
        held.dropped += 1;
    }
    true
}

/// Restores the terminal as it was before the dashboard, and prints the lines that were held back.
///
/// This function does nothing without a dashboard. It must be called before the process ends in any
/// way, even while other threads are still drawing.
pub(super) fn restore() {
    let _restoring = lock_for(&RESTORING, PATIENCE);
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    if let Some(_writing) = lock_for(&WRITING, PATIENCE) {
        write(LEAVE);
    }
    let _ = disable_raw_mode();
    let Held { lines, dropped } = std::mem::take(&mut *lock(&HELD));
    if dropped > 0 {
        let _ = writeln!(stderr(), "{dropped} lines were too many for the dashboard");
    }
    for (stream, line) in lines {
        let _ = match stream {
            Stream::Stdout => writeln!(stdout(), "{line}"),
            Stream::Stderr => writeln!(stderr(), "{line}"),
        };
    }
}

fn write(bytes: &[u8]) {
    let mut stdout = stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Locks a mutex. A poisoned mutex is locked as well, because a panic of the thread that held it
/// leaves no data half written.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_for<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let begun = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() > patience => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
