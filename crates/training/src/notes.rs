//! Messages for the user of a run, such as skipped pairs or a damaged checkpoint.
//!
//! The library prints nothing. Its messages are events of `tracing`. A program shows them with a
//! subscriber that listens to the targets [`NOTE`] and [`PROGRESS`].

/// `tracing` target of messages for the user. Their level is `INFO`, or `WARN` for warnings.
pub const NOTE: &str = "training::note";

/// `tracing` target of progress events. Their field `what` names items and what was done, such as
/// "pairs tokenised". Their field `count` is the number of items done since the previous event.
pub const PROGRESS: &str = "training::progress";

pub(crate) fn note(message: &str) {
    tracing::info!(target: NOTE, "{message}");
}

pub(crate) fn warn(message: &str) {
    tracing::warn!(target: NOTE, "{message}");
}

/// Reports that `count` more items are done. [`PROGRESS`] explains `what`.
pub(crate) fn progress(what: &'static str, count: usize) {
    tracing::info!(target: PROGRESS, %what, count);
}
