//! Settings that are numbers within bounds.

use std::ops::RangeInclusive;

use crate::error::UsageError;

/// Checks that the value of `data.SETTING` is within its bounds.
pub(super) fn check(
    setting: &str,
    value: usize,
    bounds: RangeInclusive<usize>,
) -> Result<(), UsageError> {
    let (least, most) = (bounds.start(), bounds.end());
    let expected = format!("must be at least {least} and at most {most}");
    UsageError::check(
        bounds.contains(&value),
        format!("data.{setting}"),
        value,
        expected,
    )
}
