//! The table of a SentencePiece normalizer (`precompiled_charsmap`), which replaces texts by
//! others.

use base64::prelude::{BASE64_STANDARD, Engine};

/// Returns the size in bytes of the longest replacement text in a SentencePiece table, at least 1;
/// `None` for a damaged table.
///
/// The table is given in base64. Its first four bytes are the size of a trie, in little-endian
/// order. The trie follows, and then the replacement texts, each with a zero byte at its end.
pub(super) fn longest_replacement(base64: &str) -> Option<usize> {
    let table = BASE64_STANDARD.decode(base64).ok()?;
    let (size, rest) = table.split_first_chunk()?;
    let texts = rest.get(u32::from_le_bytes(*size) as usize..)?;
    let lengths = texts.split(|&byte| byte == 0).map(<[u8]>::len);
    lengths.max().map(|longest| longest.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_replacement_is_found() {
        // A header, a trie of four bytes, and then the texts `ab`, `abcde` and `a`: 19 bytes.
        assert_eq!(longest_replacement("BAAAAAAAAABhYgBhYmNkZQBhAA=="), Some(5));
        // No base64, no header, and a trie that is longer than the table.
        for damaged in ["!", "BAAA", "/wAAAAAAAABhYgBhYmNkZQBhAA=="] {
            assert_eq!(longest_replacement(damaged), None, "{damaged}");
        }
    }
}
