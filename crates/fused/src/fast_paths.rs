//! Switches fast paths on and off, for one thread.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static IS_ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Switches the fast paths of the calling thread on or off until the guard is dropped.
///
/// They are on by default. Without them, every operation of this crate is plain Burn, for
/// comparisons and to work around a defect. The setting holds for the calling thread and for
/// operations that it runs through [`in_pool`](crate::in_pool), on any thread of the pool. A
/// backward pass follows the forward pass that recorded it.
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

/// The guard of [`fast_paths`], which restores the previous setting when it is dropped. Guards must
/// be dropped in the reverse order of their creation, as the variables of a scope are.
#[derive(Debug)]
pub struct FastPaths {
    before: bool,
    /// Keeps the guard on its thread, to which the setting belongs.
    not_send: PhantomData<*const ()>,
}

impl Drop for FastPaths {
    fn drop(&mut self) {
        IS_ENABLED.set(self.before);
    }
}
