//! Environment variables that choose one of several named values.

use std::fmt;

/// An environment variable of this crate has a value that is not allowed on this machine.
///
/// ```
/// let error = fused::EnvironmentError {
///     variable: "FUSED_SIMD",
///     value: "mmx".into(),
///     allowed: vec!["scalar", "avx2"],
/// };
/// assert_eq!(error.to_string(), r#"FUSED_SIMD is "mmx", but must be one of scalar, avx2"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentError {
    /// Name of the variable, such as `FUSED_SIMD`.
    pub variable: &'static str,
    /// Rejected value of the variable. Invalid UTF-8 is replaced by U+FFFD.
    pub value: String,
    /// All values that can be used on this machine.
    pub allowed: Vec<&'static str>,
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            variable,
            value,
            allowed,
        } = self;
        let allowed = allowed.join(", ");
        write!(f, "{variable} is {value:?}, but must be one of {allowed}")
    }
}

impl std::error::Error for EnvironmentError {}

/// Returns the choice whose name is the value of the environment variable, or `None` if the
/// variable is not set. Returns an error if no choice has this name.
pub(crate) fn read<T: Copy>(
    variable: &'static str,
    choices: &[(&'static str, T)],
) -> Result<Option<T>, EnvironmentError> {
    let Some(value) = std::env::var_os(variable) else {
        return Ok(None);
    };
    named(variable, &value.to_string_lossy(), choices).map(Some)
}

fn named<T: Copy>(
    variable: &'static str,
    value: &str,
    choices: &[(&'static str, T)],
) -> Result<T, EnvironmentError> {
    let choice = choices.iter().find(|(name, _)| *name == value);
    choice
        .map(|&(_, choice)| choice)
        .ok_or_else(|| EnvironmentError {
            variable,
            value: value.into(),
            allowed: choices.iter().map(|&(name, _)| name).collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_of_the_choices() {
        let named = |value| named("SIZE", value, &[("small", 1), ("large", 2)]);
        assert_eq!(named("large"), Ok(2));
        for wrong in ["", "Large", "large "] {
            let error = named(wrong).unwrap_err();
            assert_eq!((error.variable, &error.value[..]), ("SIZE", wrong));
            assert_eq!(error.allowed, ["small", "large"]);
        }
        assert_eq!(read("FUSED_TEST_OF_NO_VARIABLE", &[("a", 1)]), Ok(None));
    }
}
