//! Shows messages and progress of the `training` library, which reports them as `tracing` events.

use std::fmt::Debug;
use std::io;
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};
use training::notes::{NOTE, PROGRESS};

use super::line_progress::LineProgress;
use super::output::{self, Verbosity};

/// The progress display on the terminal; `None` if no progress is shown.
static SHOWN: Mutex<Option<LineProgress>> = Mutex::new(None);

/// Begins to show the messages and the progress of the `training` library.
///
/// The environment variable `RUST_LOG` selects which other events are shown. Without it, these are
/// errors. With [`Verbosity::Silent`], no other events are shown.
pub(super) fn listen() {
    let filter = match output::verbosity() {
        Verbosity::Silent => EnvFilter::new("off"),
        _ => EnvFilter::try_from_default_env().unwrap_or(EnvFilter::new("error")),
    };
    let others = filter_fn(|event| ![NOTE, PROGRESS].contains(&event.target()));
    let log = fmt::layer().with_writer(|| Log).with_ansi(false);
    let ours = Targets::new().with_targets([(NOTE, Level::INFO), (PROGRESS, Level::INFO)]);
    registry()
        .with(log.with_filter(filter.and(others)))
        .with(Notes.with_filter(ours))
        .init();
}

/// Prints each line of the log, which is written as a whole. A progress bar is hidden while the line
/// is printed. While the dashboard owns the screen, the line is held back.
struct Log;

impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        output::message(String::from_utf8_lossy(line).trim_end());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Removes the progress display of the `training` library, if one is shown.
pub fn end_progress() {
    *SHOWN.lock().expect("no thread panics with it") = None;
}

/// Prints messages of the `training` library as lines on stderr, and shows the progress that the
/// library reports.
struct Notes;

impl<S: Subscriber> Layer<S> for Notes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if event.metadata().target() == PROGRESS {
            return show_progress(fields.what, fields.count);
        }
        match *event.metadata().level() {
            Level::WARN => output::warn(&fields.message),
            _ => output::note(&fields.message),
        }
    }
}

fn show_progress(what: String, count: usize) {
    let mut shown = SHOWN.lock().expect("no thread panics with it");
    // A display that counts other items is removed before a new one is shown.
    let same = shown.take().filter(|progress| progress.what == what);
    let progress = same.unwrap_or_else(|| LineProgress::new(what, None));
    shown.insert(progress).add(count);
}

/// The fields of an event that [`Notes`] uses.
#[derive(Default)]
struct Fields {
    message: String,
    what: String,
    count: usize,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "what" => self.what = text,
            _ => self.count = text.parse().unwrap_or_default(),
        }
    }
}
