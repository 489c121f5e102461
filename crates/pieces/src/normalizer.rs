//! Normalisation: characters are replaced by a table, and blanks become visible.

use crate::Error;
use crate::charsmap::Charsmap;
use crate::model::NormalizerSpec;
use crate::trie::Trie;

/// The character `▁` (U+2581), which stands for a blank in pieces.
pub(crate) const SPACE: &str = "\u{2581}";

/// Normalises text before it is segmented, or after it was decoded.
#[derive(Debug)]
pub(crate) struct Normalizer {
    pub spec: NormalizerSpec,
    charsmap: Option<Charsmap>,
    treat_whitespace_as_suffix: bool,
}

impl Normalizer {
    pub fn new(spec: NormalizerSpec, treat_whitespace_as_suffix: bool) -> Result<Self, Error> {
        let charsmap = match &spec.charsmap[..] {
            [] => None,
            table => Some(Charsmap::new(table)?),
        };
        Ok(Self {
            spec,
            charsmap,
            treat_whitespace_as_suffix,
        })
    }

    /// Normalises `text`. Texts of `protected` stay as they are, except for their blanks.
    pub fn normalize(&self, text: &str, protected: Option<&Trie>) -> String {
        let mut rest = text;
        if self.spec.remove_extra_whitespaces {
            while !rest.is_empty()
                && let (" ", length) = self.prefix(rest, protected)
            {
                rest = &rest[length..];
            }
        }
        if rest.is_empty() {
            return String::new();
        }
        let space = if self.spec.escape_whitespaces {
            SPACE
        } else {
            " "
        };
        let mut normalized = String::with_capacity(rest.len() / 2 * 3);
        if self.spec.add_dummy_prefix && !self.treat_whitespace_as_suffix {
            normalized.push_str(space);
        }
        let mut after_space = self.spec.remove_extra_whitespaces;
        while !rest.is_empty() {
            let (mut replacement, length) = self.prefix(rest, protected);
            rest = &rest[length..];
            if after_space {
                replacement = replacement.trim_start_matches(' ');
            }
            if replacement.is_empty() {
                continue;
            }
            for (index, part) in replacement.split(' ').enumerate() {
                if index > 0 {
                    normalized.push_str(space);
                }
                normalized.push_str(part);
            }
            after_space = self.spec.remove_extra_whitespaces && replacement.ends_with(' ');
        }
        if self.spec.remove_extra_whitespaces {
            normalized.truncate(normalized.trim_end_matches(space).len());
        }
        if self.spec.add_dummy_prefix && self.treat_whitespace_as_suffix {
            normalized.push_str(space);
        }
        normalized
    }

    /// Returns what replaces the beginning of `text`, which is not empty, and the length of that
    /// beginning in bytes.
    fn prefix<'a>(&'a self, text: &'a str, protected: Option<&Trie>) -> (&'a str, usize) {
        if let Some(length) = protected.and_then(|texts| texts.longest_prefix(text)) {
            return (&text[..length], length);
        }
        let replaced = self
            .charsmap
            .as_ref()
            .and_then(|map| map.longest_prefix(text));
        replaced.unwrap_or_else(|| {
            let length = first_char(text);
            (&text[..length], length)
        })
    }
}

/// Returns the length in bytes of the first character of `text`, which is not empty.
pub(crate) fn first_char(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}
