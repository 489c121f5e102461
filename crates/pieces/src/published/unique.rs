//! Reads a vocabulary, and refuses one in which a token is there twice.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The ids of tokens. Reading a plain map would keep the last id of a repeated token.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Ids(pub BTreeMap<String, u32>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(VocabularyVisitor).map(Self)
    }
}

struct VocabularyVisitor;

impl<'de> Visitor<'de> for VocabularyVisitor {
    type Value = BTreeMap<String, u32>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the id of each token")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut ids = BTreeMap::new();
        while let Some((token, id)) = entries.next_entry::<String, u32>()? {
            if ids.contains_key(&token) {
                return Err(A::Error::custom(format_args!("{token:?} is there twice")));
            }
            ids.insert(token, id);
        }
        Ok(ids)
    }
}
