//! Checks of numeric settings.

use crate::error::UsageError;

/// Maximum value of counts that have no limit of their own.
pub(super) const MANY: usize = 1_000_000_000;

pub(super) const POSITIVE: &str = "must be a positive number";
pub(super) const FRACTION: &str = "must be at least 0 and less than 1";

/// Rejects a count that is 0 or greater than `most`.
pub(super) fn check_count(path: &str, value: usize, most: usize) -> Result<(), UsageError> {
    UsageError::check(value > 0, path, value, "must be at least 1")?;
    UsageError::check(
        value <= most,
        path,
        value,
        format!("must be at most {most}"),
    )
}

/// Rejects a number that is 0, negative or not finite.
pub(super) fn check_positive(path: &str, value: f64) -> Result<(), UsageError> {
    UsageError::check(value > 0.0 && value.is_finite(), path, value, POSITIVE)
}
