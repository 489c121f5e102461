//! The name of the machine.

use std::ffi::OsString;

/// Returns the name of this machine.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn name() -> OsString {
    gethostname::gethostname()
}

/// Returns `browser`, because WebAssembly cannot ask for the name of the machine.
#[cfg(target_family = "wasm")]
pub(crate) fn name() -> OsString {
    "browser".into()
}
