//! Switches the fast paths of one thread on or off.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static IS_ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Switches the fast paths of the calling thread on or off until the guard is dropped.
///
/// Fast paths are on by default. While they are off, an operation runs in plain Burn, or returns
/// `None` if it has no fallback. This helps to compare results and to work around a defect. The
/// setting holds for the calling thread and for operations that it runs through
/// [`in_pool`](crate::in_pool), on any thread of the pool. A backward pass takes the path of its
/// forward pass, even if the setting has changed since.
///
/// ```
/// assert!(fused::has_fast_paths());
/// {
///     let _plain = fused::fast_paths(false);
///     assert!(!fused::has_fast_paths());
/// }
/// assert!(fused::has_fast_paths());
/// ```
#[must_use = "the previous setting is restored when the guard is dropped"]
pub fn fast_paths(is_enabled: bool) -> FastPaths {
    FastPaths {
        before: IS_ENABLED.replace(is_enabled),
        not_send: PhantomData,
    }
}

/// Returns whether the fast paths of the calling thread are on.
pub fn has_fast_paths() -> bool {
    IS_ENABLED.get()
}

/// Guard of [`fast_paths`] that restores the previous setting when it is dropped. Guards must be
/// dropped in the reverse order of their creation, as the variables of a scope are.
#[derive(Debug)]
pub struct FastPaths {
    before: bool,
    /// Makes the guard `!Send`, since the setting belongs to the thread that created it.
    not_send: PhantomData<*const ()>,
}

impl Drop for FastPaths {
    fn drop(&mut self) {
        IS_ENABLED.set(self.before);
    }
}
