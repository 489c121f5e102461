//! `train backends`: list the backends of this build.

use anyhow::Result;
use clap::ValueEnum;

use crate::device::Backend;
use crate::terminal::output;

/// Prints a line for each backend, which says whether it is built in or the default. Then prints
/// the vector instructions of the CPU.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run() -> Result<()> {
    let default = Backend::built_in().next();
    for &backend in Backend::value_variants().iter().rev() {
        let [name, hardware] = backend.describe();
        let state = match backend.is_built_in() {
            true if default == Some(backend) => "built in, the default".into(),
            true => format!("built in, --backend {name}"),
            false => format!("not in this build, add --features {name}"),
        };
        output::result(&format!("{name:<8} {hardware:<27} {state}"))?;
    }
    let (level, levels) = (fused::simd_level(), fused::simd_levels().join(", "));
    output::result(&format!(
        "vector instructions of flex: {level}; this CPU has {levels}"
    ))
}
