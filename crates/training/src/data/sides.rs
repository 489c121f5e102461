//! Pairs of values, one for sources and one for targets.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// The values of a setting for sources and for targets.
///
/// A configuration file has either an object with the keys `source` and `target`, or a single value
/// for both sides.
///
/// ```
/// use training::data::Sides;
///
/// let read = |json| serde_json::from_str::<Sides<usize>>(json).unwrap();
/// assert_eq!(read("5"), Sides::both(5));
/// assert_eq!(read(r#"{"source": 5, "target": 7}"#), Sides { source: 5, target: 7 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    /// Value for sources.
    pub source: T,
    /// Value for targets.
    pub target: T,
}

impl<T> Sides<T> {
    /// Returns `Sides` with the same value for sources and targets.
    pub fn both(value: T) -> Self
    where
        T: Clone,
    {
        Self {
            source: value.clone(),
            target: value,
        }
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

impl<'de, T: Deserialize<'de> + Clone> Deserialize<'de> for Sides<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "must be one value, or an object with source and target"
        )]
        enum Form<T> {
            Each(Each<T>),
            Both(T),
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Each<T> {
            source: T,
            target: T,
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Each(Each { source, target }) => Self { source, target },
            Form::Both(value) => Self::both(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_value_or_both() {
        let sides = Sides {
            source: 5,
            target: 7,
        };
        let json = serde_json::to_string(&sides).unwrap();
        assert_eq!(json, r#"{"source":5,"target":7}"#);
        assert_eq!(serde_json::from_str::<Sides<usize>>(&json).unwrap(), sides);
        for wrong in [r#"{"source":5}"#, r#"{"source":5,"target":7,"x":1}"#, "-5"] {
            let error = serde_json::from_str::<Sides<usize>>(wrong).unwrap_err();
            assert!(error.to_string().contains("must be one value"), "{error}");
        }
    }
}
