//! Checks the keys of a header.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// A JSON object in which no key is there twice, as its reader has found out. A plain map would keep
/// the last value of a repeated key, and so leave out a tensor without a word.
pub(super) struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KeysVisitor)
    }
}

struct KeysVisitor;

impl<'de> Visitor<'de> for KeysVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<UniqueKeys, A::Error> {
        let mut seen = HashSet::new();
        while let Some((key, IgnoredAny)) = entries.next_entry::<String, IgnoredAny>()? {
            if let Some(key) = seen.replace(key) {
                return Err(A::Error::custom(format_args!("{key:?} is there twice")));
            }
        }
        Ok(UniqueKeys)
    }
}
