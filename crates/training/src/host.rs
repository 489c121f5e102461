//! The name of the machine.

/// Returns the name of this machine.
#[cfg(not(target_family = "wasm"))]
pub fn name() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}

/// Returns `browser`, because WebAssembly cannot ask for the name of the machine.
#[cfg(target_family = "wasm")]
pub fn name() -> String {
    "browser".into()
}
