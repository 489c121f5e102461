//! Checks of sizes and probabilities.

use crate::error::{ConfigError, number};

/// Upper limit of every size in a configuration. A damaged file may have a larger size, which would
/// exhaust the memory.
const MAX_SIZE: usize = 1 << 24;

/// Upper limit of the number of layers, for the same reason.
const MAX_LAYERS: usize = 10_000;

/// Checks that a size is from 1 to the upper limit.
pub(super) fn size(field: &'static str, value: usize) -> Result<(), ConfigError> {
    match value {
        0 => Err(ConfigError::new(field, value, "at least 1")),
        1..=MAX_SIZE => Ok(()),
        _ => Err(ConfigError::new(
            field,
            value,
            format!("at most {MAX_SIZE}"),
        )),
    }
}

/// Checks the number of layers of a stack.
pub(super) fn layers(n_layers: usize) -> Result<(), ConfigError> {
    let expected = format!("at most {MAX_LAYERS}");
    match n_layers {
        ..=MAX_LAYERS => size("n_layers", n_layers),
        _ => Err(ConfigError::new("n_layers", n_layers, expected)),
    }
}

/// Checks a dropout probability.
pub(super) fn probability(field: &'static str, value: f64) -> Result<(), ConfigError> {
    if (0.0..1.0).contains(&value) {
        Ok(())
    } else {
        let expected = "at least 0 and less than 1";
        Err(ConfigError::new(field, number(value), expected))
    }
}
