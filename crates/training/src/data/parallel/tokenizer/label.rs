//! Labels of tokens in plots.

/// Label of a token that is a blank.
const BLANK: &str = "␣";

/// Returns the label of a text: one line, without blanks at its ends.
pub(super) fn of_text(text: &str) -> String {
    let word = text.trim_matches(' ');
    if word.is_empty() {
        return BLANK.into();
    }
    let visible = word.chars().map(|c| match c {
        ' ' => BLANK.into(),
        c if c.is_whitespace() || c.is_control() => c.escape_default().to_string(),
        c => c.into(),
    });
    visible.collect()
}

/// Returns the label of a token that is only a part of a character: its bytes in hexadecimal
/// digits. In a byte-level BPE, `name` has one character of GPT-2's alphabet for each byte. In a
/// vocabulary with single bytes for unknown characters, it is a name such as `<0xE7>`. Returns
/// `None` for other names.
pub(super) fn of_bytes(name: &str) -> Option<String> {
    let single = name.strip_prefix("<0x");
    if let Some(digits) = single.and_then(|rest| rest.strip_suffix('>')) {
        return Some(format!("0x{digits}"));
    }
    let bytes: Option<Vec<u8>> = name.chars().map(byte).collect();
    let digits = bytes?.into_iter().map(|byte| format!("{byte:02X}"));
    Some(format!("0x{}", digits.collect::<String>()))
}

/// Returns the byte that a character of GPT-2's alphabet stands for. Printable characters of
/// Latin-1 stand for themselves. The characters from U+0100 on stand for the other bytes, in
/// increasing order.
fn byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match c {
        '!'..='~' | '¡'..='¬' | '®'..='ÿ' => code,
        '\u{100}'..='\u{120}' => code - 0x100,
        '\u{121}'..='\u{142}' => code - 0x121 + 0x7f,
        '\u{143}' => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_one_line_without_blanks_around_them() {
        for (text, label) in [
            (" der", "der"),
            ("", "␣"),
            ("  ", "␣"),
            ("a b", "a␣b"),
            ("\n", "\\n"),
            ("é", "é"),
        ] {
            assert_eq!(of_text(text), label);
        }
    }

    #[test]
    fn every_byte_has_a_character() {
        let alphabet = (0..0x144u32).filter_map(char::from_u32);
        let mut bytes: Vec<u8> = alphabet.filter_map(byte).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(of_bytes("Ã"), Some("0xC3".into()));
        assert_eq!(of_bytes("âĸ"), Some("0xE296".into()));
        assert_eq!(of_bytes("<0xE7>"), Some("0xE7".into()));
        assert_eq!(of_bytes("▁"), None);
    }
}
