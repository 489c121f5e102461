//! The check that a numeric setting of the section `data` is within its bounds.

use std::ops::RangeInclusive;

use crate::error::UsageError;

/// Checks that `value`, the value of the setting `data.SETTING`, is within `bounds`.
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
