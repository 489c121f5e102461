//! `train backends`: what this build can run on.

use anyhow::Result;

use crate::device::Backend;
use crate::output;

/// Prints one line a backend, and which one a run would take.
///
/// # Errors
///
/// If stdout cannot be written.
pub fn run() -> Result<()> {
    let chosen = Backend::of_build();
    for backend in Backend::ALL.into_iter().rev() {
        let state = if chosen == Some(backend) {
            "built in, the default".to_string()
        } else if backend.is_built_in() {
            format!("built in, --backend {}", backend.name())
        } else {
            format!("not in this build, add --features {}", backend.name())
        };
        output::result(&format!(
            "{:<8} {:<27} {state}",
            backend.name(),
            backend.description()
        ))?;
    }
    Ok(())
}
