//! Switches fast paths on and off, for one thread.
//!
//! The environment variable `FUSED_FAST_PATHS` (`on` or `off`) is the initial setting of each
//! thread. With `off`, tests that do not change the setting themselves run without fast paths.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::LazyLock;

use crate::variable::{EnvironmentError, read};

const VARIABLE: &str = "FUSED_FAST_PATHS";

static DEFAULT: LazyLock<Result<bool, EnvironmentError>> = LazyLock::new(|| {
    let choices = [("on", true), ("off", false)];
    Ok(read(VARIABLE, &choices)?.unwrap_or(true))
});

thread_local! {
    static IS_ENABLED: Cell<bool> = Cell::new(default().unwrap_or_else(|error| panic!("{error}")));
}

/// Returns whether fast paths are on by default, or an error if the environment variable has a
/// value other than `on` and `off`.
pub(crate) fn default() -> Result<bool, EnvironmentError> {
    DEFAULT.clone()
}

/// Switches the fast paths of the calling thread on or off until the guard is dropped.
///
/// Fast paths are on by default, unless the environment variable `FUSED_FAST_PATHS` is `off`.
/// Without fast paths, operations run in plain Burn, and attention functions return `None`. This is
/// useful for comparisons, and to work around a defect of a fast path.
///
/// The setting holds for the calling thread and for operations that it runs through
/// [`in_pool`](crate::in_pool), whichever thread of the pool calls them. A backward pass takes the
/// same path as the forward pass that recorded it.
///
/// # Panics
///
/// If `FUSED_FAST_PATHS` has a value other than `on` and `off`.
///
/// ```
/// let before = fused::has_fast_paths();
/// {
///     let _plain = fused::fast_paths(false);
///     assert!(!fused::has_fast_paths());
/// }
/// assert_eq!(fused::has_fast_paths(), before);
/// ```
#[must_use = "the previous setting is restored when the guard is dropped"]
pub fn fast_paths(is_enabled: bool) -> FastPaths {
    FastPaths {
        before: IS_ENABLED.replace(is_enabled),
        not_send: PhantomData,
    }
}

/// Returns whether the fast paths of the calling thread are on.
///
/// # Panics
///
/// If `FUSED_FAST_PATHS` has a value other than `on` and `off`.
pub fn has_fast_paths() -> bool {
    IS_ENABLED.get()
}

/// Guard of [`fast_paths`] that restores the previous setting when it is dropped.
///
/// Guards must be dropped in the reverse order of their creation, as the variables of a scope are.
#[derive(Debug)]
pub struct FastPaths {
    before: bool,
    /// Makes the guard `!Send`, since it must restore the setting of the thread that created it.
    not_send: PhantomData<*const ()>,
}

impl Drop for FastPaths {
    fn drop(&mut self) {
        IS_ENABLED.set(self.before);
    }
}
