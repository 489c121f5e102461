//! Pairs of values, one for sources and one for targets.

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

    /// Returns the path of a setting and its value, first for sources and then for targets. If the
    /// values differ, the paths are `PATH.source` and `PATH.target`. Equal values were probably
    /// given as a single value, so both paths are then `path` itself.
    pub(crate) fn with_paths(self, path: &str) -> [(String, T); 2]
    where
        T: PartialEq,
    {
        let paths = if self.source == self.target {
            [path.into(), path.into()]
        } else {
            ["source", "target"].map(|side| format!("{path}.{side}"))
        };
        let [source, target] = paths;
        [(source, self.source), (target, self.target)]
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

    #[test]
    fn paths_name_the_side_if_the_sides_differ() {
        let paths = |sides: Sides<usize>| sides.with_paths("data.x").map(|(path, _)| path);
        assert_eq!(paths(Sides::both(3)), ["data.x", "data.x"]);
        let different = Sides {
            source: 1,
            target: 2,
        };
        assert_eq!(paths(different), ["data.x.source", "data.x.target"]);
    }
}
