//! Formats counts as readable text.

use std::fmt::Display;

/// Returns a number with commas between thousands, such as `123,940` or `-1,234.5`.
pub fn grouped(number: impl Display) -> String {
    let text = number.to_string();
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (index, character) in text.char_indices() {
        let left = whole.saturating_sub(index);
        let is_after_digit = grouped.ends_with(|c: char| c.is_ascii_digit());
        if left > 0 && left.is_multiple_of(3) && is_after_digit {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}

/// Returns a count with the name of what is counted, such as `1 thread` or `1,000 steps`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with("ch") || what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(grouped("-123456.75"), "-123,456.75");
        assert_eq!(counted(1, "step"), "1 step");
        assert_eq!(counted(1000, "step"), "1,000 steps");
    }
}
