//! Pairs of values, one for sources and one for targets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The values of a setting, or of something else, for sources and for targets.
///
/// A configuration file, and `--set`, have either an object with the keys `source` and `target`, or a
/// single value for both sides; `config.json` of a run has the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sides<T> {
    /// Value for sources.
    pub source: T,
    /// Value for targets.
    pub target: T,
}

impl<T> Sides<T> {
    /// Returns `Sides` with these values.
    pub const fn new(source: T, target: T) -> Self {
        Self { source, target }
    }

    /// Returns `Sides` with the same value for sources and targets.
    pub fn both(value: T) -> Self
    where
        T: Clone,
    {
        Self::new(value.clone(), value)
    }

    /// Returns the values of sources and targets, in this order.
    pub fn each(self) -> [T; 2] {
        [self.source, self.target]
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Sides<T> {
    /// Writes the value of both sides, or `SOURCE,TARGET` if they differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target } = self;
        if source == target {
            write!(f, "{source}")
        } else {
            write!(f, "{source},{target}")
        }
    }
}
