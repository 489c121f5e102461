//! Messages for the user of a run, such as skipped pairs or a damaged checkpoint.
//!
//! The library prints nothing. Its messages are events of `tracing`: a program shows them by a
//! subscriber that listens to the targets [`NOTE`] and [`PROGRESS`].

/// Target of messages that a user should read: level `INFO`, or `WARN` for warnings.
pub const NOTE: &str = "training::note";

/// Target of progress: events with the fields `count` and `what`.
pub const PROGRESS: &str = "training::progress";

pub(crate) fn note(message: &str) {
    tracing::info!(target: NOTE, "{message}");
}

pub(crate) fn warn(message: &str) {
    tracing::warn!(target: NOTE, "{message}");
}

/// Reports that `count` more items of a kind, such as "pairs tokenised", are done.
pub(crate) fn progress(what: &'static str, count: usize) {
    tracing::info!(target: PROGRESS, what, count);
}
