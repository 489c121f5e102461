//! Fast paths on or off.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ENABLED: AtomicBool = AtomicBool::new(true);

/// Switches the fast paths of the whole process on, as they are from the beginning, or off: then
/// every operation is plain Burn, for a comparison or as a way out.
pub fn enable(is_enabled: bool) {
    IS_ENABLED.store(is_enabled, Ordering::Relaxed);
}

/// Whether the fast paths are on.
pub fn is_enabled() -> bool {
    IS_ENABLED.load(Ordering::Relaxed)
}
