//! `train backends`: list all backends, and say which of them this build has.

use anyhow::Result;
use clap::ValueEnum;

use crate::device::Backend;
use crate::terminal::output;

/// Prints a line for each backend, which says whether the backend is in this build and whether it
/// is the default. Then prints which vector instructions flex uses, which ones the CPU has, and
/// whether those in use can multiply bfloat16 numbers.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run() -> Result<()> {
    let default = Backend::built_in().next();
    for &backend in Backend::value_variants().iter().rev() {
        let value = backend.to_possible_value().expect("no backend is hidden");
        let hardware = value.get_help().expect("every backend has a comment");
        let (name, hardware) = (value.get_name(), hardware.to_string());
        let state = if default == Some(backend) {
            "built in, the default".into()
        } else if backend.is_built_in() {
            format!("built in, --backend {name}")
        } else {
            format!("not in this build, add --features {name}")
        };
        output::result(&format!("{name:<8} {hardware:<27} {state}"))?;
    }
    let (level, levels) = (fused::simd_level(), fused::simd_levels().join(", "));
    let has_bf16 = fused::has_bf16_instructions();
    let bf16 = if has_bf16 { "yes" } else { "no" };
    output::result(&format!(
        "vector instructions of flex: {level}; bf16 instructions: {bf16}; this CPU has {levels}"
    ))
}
