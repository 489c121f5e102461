//! JSON values in which no object has the same key twice, read from JSON or TOML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON value in which no object has the same key twice. Reading a plain [`Value`] would silently
/// keep only the last value of a repeated key, and turn TOML's `inf` and `nan` into null. TOML's
/// dates are errors, too: no setting is a date.
pub struct Unique(pub Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

/// Defines the method for a value of a type that any JSON value may have.
macro_rules! plain {
    ($name:ident, $type:ty) => {
        fn $name<E>(self, value: $type) -> Result<Value, E> {
            Ok(value.into())
        }
    };
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    plain!(visit_bool, bool);
    plain!(visit_i64, i64);
    plain!(visit_u64, u64);
    plain!(visit_str, &str);

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if value.is_finite() {
            Ok(value.into())
        } else {
            Err(E::custom(format_args!("{value} is not a finite number")))
        }
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, Unique>()? {
            // The TOML library passes a date as an object with such a key.
            if key.starts_with("$__toml_private_") {
                return Err(A::Error::custom("a date is not the value of a setting"));
            }
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key {key:?} is there twice"
                )));
            }
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_once() {
        let text = r#"{"a": [1, -2, 0.1, "x", null, true, {"a": {}}], "b": 1e300}"#;
        let Unique(read) = serde_json::from_str(text).unwrap();
        assert_eq!(read, serde_json::from_str::<Value>(text).unwrap());
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"a": 1, "c": 2, "a": 3}}]"#,
        ] {
            let error = serde_json::from_str::<Unique>(text).err().unwrap();
            let error = error.to_string();
            assert!(error.starts_with("the key \"a\" is there twice at line 1"));
        }
    }
}
