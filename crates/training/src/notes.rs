//! Messages for the user of a run, such as skipped pairs or a damaged checkpoint.
//!
//! The library prints nothing. Its messages are events of `tracing`. A program shows them with a
//! subscriber that listens to the targets [`NOTE`] and [`PROGRESS`].

/// `tracing` target of messages for the user. Their level is `INFO`, or `WARN` for warnings.
pub const NOTE: &str = "training::note";

/// `tracing` target of progress events, which have the fields `count` and `what`.
pub const PROGRESS: &str = "training::progress";

pub(crate) fn note(message: &str) {
    tracing::info!(target: NOTE, "{message}");
}

pub(crate) fn warn(message: &str) {
    tracing::warn!(target: NOTE, "{message}");
}

/// Reports that `count` more items are done. `what` names the items and what was done, such as
/// "pairs tokenised".
pub(crate) fn progress(what: &'static str, count: usize) {
    tracing::info!(target: PROGRESS, what, count);
}
