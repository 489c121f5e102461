//! Checks of numeric settings.

use crate::error::UsageError;

/// Maximum value of counts that have no limit of their own.
pub(crate) const MANY: usize = 1_000_000_000;

pub(crate) const POSITIVE: &str = "must be a positive number";
pub(crate) const FLOAT32: &str = "must be a number in the range of float32";
pub(crate) const FRACTION: &str = "must be at least 0 and less than 1";

/// Rejects a count that is 0 or greater than `most`.
pub(crate) fn check_count(path: &str, value: usize, most: usize) -> Result<(), UsageError> {
    UsageError::check(value > 0, path, value, "must be at least 1")?;
    UsageError::check(
        value <= most,
        path,
        value,
        format!("must be at most {most}"),
    )
}

/// Rejects a number that is negative or not finite, or that `f32` rounds to 0 or to infinity.
pub(crate) fn check_positive(path: &str, value: f64) -> Result<(), UsageError> {
    UsageError::check(value > 0.0 && value.is_finite(), path, value, POSITIVE)?;
    let rounded = value as f32;
    let is_in_range = rounded > 0.0 && rounded.is_finite();
    // The number is shown in scientific notation, because in decimal notation it can have dozens of
    // zeros.
    UsageError::check(is_in_range, path, format!("{value:e}"), FLOAT32)
}
