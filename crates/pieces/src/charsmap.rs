//! The precompiled table of a normaliser: texts and what replaces them.
//!
//! A table has the size of a trie in bytes (four bytes), the trie, and replacements that end with
//! NUL. The trie is a double array of the library Darts-clone. Each unit of four bytes has these
//! bits:
//!
//! ```text
//! inner unit   31: 0   30..10: offset   9: offset is in blocks of 256   8: has a leaf   7..0: byte
//! leaf         31: 1   30..0: position of a replacement
//! ```
//!
//! The child of unit `i` for a byte is unit `i ^ offset ^ byte`, if that unit has the same byte.
//! The leaf of unit `i` is unit `i ^ offset`.

use crate::Error;

/// Longest replacement that is read, in bytes. In Unicode's normal forms it has 33 bytes.
const MAX_REPLACEMENT: usize = 1024;
/// Longest replaced text that is looked for, in bytes. It bounds the time of a cyclic table.
const MAX_SOURCE: usize = 1024;

/// Texts and what replaces them.
#[derive(Debug)]
pub(crate) struct Charsmap {
    units: Vec<Unit>,
    replacements: String,
}

#[derive(Clone, Copy, Debug)]
struct Unit(u32);

impl Unit {
    fn is_leaf(self) -> bool {
        self.0 >> 31 == 1
    }

    fn position(self) -> usize {
        (self.0 & 0x7fff_ffff) as usize
    }

    /// Whether this unit is the child of its parent for `byte`.
    fn is_child(self, byte: u8) -> bool {
        self.0 & 0x8000_00ff == u32::from(byte)
    }

    fn has_leaf(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn offset(self) -> usize {
        (self.0 >> 10 << ((self.0 >> 9 & 1) * 8)) as usize
    }
}

impl Charsmap {
    /// Checks and reads a table.
    pub fn new(table: &[u8]) -> Result<Self, Error> {
        let (size, rest) = table
            .split_first_chunk()
            .ok_or(Error::Charsmap("has less than 4 bytes"))?;
        let (units, replacements) = rest
            .split_at_checked(u32::from_le_bytes(*size) as usize)
            .ok_or(Error::Charsmap("is cut"))?;
        // Units come in blocks of 256, so that a child is in the block of its sibling.
        if units.is_empty() || units.len() % 1024 != 0 {
            return Err(Error::Charsmap("is not made of blocks of 1,024 bytes"));
        }
        if replacements.last() != Some(&0) {
            return Err(Error::Charsmap("has a last replacement without NUL"));
        }
        let replacements = str::from_utf8(replacements)
            .map_err(|_| Error::Charsmap("has replacements that are not UTF-8"))?;
        let mut texts = replacements.split('\0');
        if texts.any(|text| text.len() > MAX_REPLACEMENT) {
            return Err(Error::Charsmap("has a replacement of over 1,024 bytes"));
        }
        let (units, _) = units.as_chunks();
        let charsmap = Self {
            units: units
                .iter()
                .map(|&unit| Unit(u32::from_le_bytes(unit)))
                .collect(),
            replacements: replacements.into(),
        };
        if !charsmap.is_valid() {
            return Err(Error::Charsmap("has a unit that leads nowhere"));
        }
        Ok(charsmap)
    }

    /// Returns whether all that can be reached from a unit exists.
    fn is_valid(&self) -> bool {
        let root = self.units[0];
        root.is_child(0)
            && !root.has_leaf()
            && root.offset() != 0
            && self.units.iter().enumerate().all(|(index, unit)| {
                if unit.is_leaf() {
                    self.replacements.is_char_boundary(unit.position())
                        && unit.position() < self.replacements.len()
                } else {
                    let leaf = self.units.get(index ^ unit.offset());
                    leaf.is_some_and(|leaf| !unit.has_leaf() || leaf.is_leaf())
                }
            })
    }

    /// Returns what replaces the longest known text with which `text` begins, and the length of
    /// that text in bytes.
    pub fn longest_prefix(&self, text: &str) -> Option<(&str, usize)> {
        let mut longest = None;
        let mut unit = self.units[0];
        let mut index = unit.offset();
        for (&byte, length) in text.as_bytes().iter().zip(1..=MAX_SOURCE) {
            index ^= usize::from(byte);
            unit = self.units[index];
            if !unit.is_child(byte) {
                break;
            }
            index ^= unit.offset();
            if unit.has_leaf() && text.is_char_boundary(length) {
                longest = Some((self.units[index].position(), length));
            }
        }
        let (position, length) = longest?;
        let replacement = &self.replacements[position..];
        Some((&replacement[..replacement.find('\0')?], length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_two_scales() {
        assert_eq!(Unit(3 << 10 | 0x61).offset(), 3);
        assert_eq!(Unit(3 << 10 | 1 << 9 | 0x61).offset(), 768);
    }
}
