//! Turns panics of a dependency into errors.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of calls of [`contain`] that are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Returns whether any thread is inside a call whose panic this library would return as an error.
/// The panic hook of a program should then print nothing.
pub fn is_contained() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}

/// Calls a function of a dependency, and returns its error or panic as a text.
///
/// The text of a panic is the first line of its message, or `it panicked` if there is no message.
/// After a panic, do not use anything that the function may have changed.
pub(crate) fn contain<T, E: Display>(call: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    RUNNING.fetch_add(1, Ordering::Relaxed);
    let caught = catch_unwind(AssertUnwindSafe(call));
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    let result = caught.map_err(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        let line = message.and_then(|message| message.lines().next());
        line.unwrap_or("it panicked").into()
    });
    result.and_then(|result| result.map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_first_line() {
        type Outcome = Result<bool, &'static str>;
        assert_eq!(contain(|| Outcome::Ok(is_contained())), Ok(true));
        assert_eq!(contain(|| Outcome::Err("no")).unwrap_err(), "no");
        let panics = |message: &'static str| contain(|| -> Outcome { panic!("{message}") });
        assert_eq!(panics("index 3\nof 2").unwrap_err(), "index 3");
        let number = 7;
        let error = contain(|| -> Outcome { panic!("no {number}") });
        assert_eq!(error.unwrap_err(), "no 7");
    }
}
