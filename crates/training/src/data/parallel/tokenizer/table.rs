//! The table of a SentencePiece normalizer (`precompiled_charsmap`), which replaces texts by
//! others.

/// Returns the size in bytes of the longest replacement text in a SentencePiece table; at least 1.
///
/// The table is given in base64. Its first four bytes are the size of a trie. The trie follows, and
/// then the replacement texts, each with a zero byte at its end.
pub(super) fn longest_replacement(base64: &str) -> u64 {
    let trie = table_size(base64).unwrap_or(0);
    let texts = decoded(base64).skip(4 + trie as usize);
    let (mut longest, mut length) = (1, 0);
    for byte in texts {
        length = if byte == 0 { 0 } else { length + 1 };
        longest = longest.max(length);
    }
    longest
}

/// Returns the bytes that a text in base64 stands for. Ends at a character that is not base64, such
/// as padding.
fn decoded(base64: &str) -> impl Iterator<Item = u8> {
    let digits = base64.bytes().map_while(|character| {
        let digit = DIGITS.iter().position(|&digit| digit == character)?;
        Some(digit as u32)
    });
    let (mut bits, mut count) = (0, 0);
    digits.filter_map(move |digit| {
        bits = bits << 6 | digit;
        count += 6;
        (count >= 8).then(|| {
            count -= 8;
            (bits >> count) as u8
        })
    })
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the size in bytes that the header of a SentencePiece table in base64 states; `None` if
/// the table is too short, or its header is not base64. The header is the first four bytes, in
/// little-endian order.
pub(super) fn table_size(base64: &str) -> Option<u64> {
    let mut bytes = decoded(base64);
    let header = [bytes.next()?, bytes.next()?, bytes.next()?, bytes.next()?];
    Some(u32::from_le_bytes(header).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, a trie of four bytes, and then the texts `ab`, `abcde` and `a`: 19 bytes.
    const TABLE: &str = "BAAAAAAAAABhYgBhYmNkZQBhAA==";

    #[test]
    fn base64_is_decoded() {
        let bytes: Vec<u8> = decoded(TABLE).collect();
        assert_eq!(bytes, b"\x04\0\0\0\0\0\0\0ab\0abcde\0a\0");
        assert_eq!(
            decoded("////+w!A").collect::<Vec<_>>(),
            [255, 255, 255, 251]
        );
    }

    #[test]
    fn the_longest_replacement_is_found() {
        assert_eq!(
            (table_size(TABLE), longest_replacement(TABLE)),
            (Some(4), 5)
        );
        assert_eq!((table_size("!"), longest_replacement("!")), (None, 1));
    }
}
