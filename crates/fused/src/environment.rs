//! The check of all environment variables of this crate.

use crate::fast_paths;
use crate::simd::level;
use crate::variable::EnvironmentError;

/// Checks the environment variables of this crate, `FUSED_SIMD` and `FUSED_FAST_PATHS`.
///
/// A program can call this function at its start to report an invalid value. Every operation that
/// reads an invalid value panics.
///
/// # Errors
///
/// If a variable has a value that cannot be used on this machine.
///
/// ```
/// assert_eq!(fused::check_environment(), Ok(()));
/// ```
pub fn check_environment() -> Result<(), EnvironmentError> {
    level::check()?;
    fast_paths::default()?;
    Ok(())
}
