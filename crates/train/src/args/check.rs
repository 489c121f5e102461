//! Checks for flags that cannot be combined.

use std::fmt::Display;

use training::error::UsageError;

/// Replaces a setting by the value of a flag if the flag is given.
pub fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}

/// Rejects a flag if it is given. `expected` completes the message.
pub fn reject(flag: &str, value: Option<impl Display>, expected: &str) -> Result<(), UsageError> {
    value.map_or(Ok(()), |value| Err(UsageError::new(flag, value, expected)))
}

/// Rejects `flag`, which has no effect without `other`, if only `flag` is given.
pub fn needs(
    flag: &str,
    value: Option<impl Display>,
    other: &str,
    is_given: bool,
) -> Result<(), UsageError> {
    let value = value.filter(|_| !is_given);
    reject(flag, value, &format!("needs {other}"))
}
