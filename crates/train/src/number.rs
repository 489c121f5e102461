//! Formats numbers, durations and sizes as readable text.

use std::fmt::Display;
use std::time::Duration;

/// Returns a number with three significant digits, such as `0.0312`, `12.3` or `3.12e-5`.
///
/// From 1,000 up to a million, all digits before the decimal point are kept, as in `61234`. Zero
/// and numbers that are not finite are `0`, `NaN` and `inf`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || value == 0.0 {
        return format!("{value}");
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}");
    }
    // Rounding may add a digit: 9.996 becomes 10.0.
    let rounded: f64 = format!("{size:.2e}").parse().expect("it is a number");
    let decimals = 2 - rounded.log10().floor() as i32;
    format!("{value:.*}", decimals.max(0) as usize)
}

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

/// Formats whole numbers. Three or more consecutive numbers become an inclusive range, such as
/// `1..24`.
pub fn ranges(numbers: &[u64]) -> Vec<String> {
    let rows = numbers.chunk_by(|a, b| a + 1 == *b);
    let texts = rows.map(|row| match row {
        [first, .., last] if row.len() > 2 => vec![format!("{first}..{last}")],
        row => row.iter().map(u64::to_string).collect(),
    });
    texts.flatten().collect()
}

/// Returns a duration as text, such as `0:07`, `12:34`, `1:02:03` or `2 d 03:04`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, hours) => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
        (days, hours) => format!("{days} d {:02}:{:02}", hours % 24, minutes % 60),
    }
}

/// Returns a size, given in bytes, as text such as `484 KiB` or `1.23 GiB`.
pub fn bytes(bytes: usize) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{} {}", short(size), units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_has_three_digits_at_any_size() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1.00"),
            (0.123_45, "0.123"),
            (0.001, "0.00100"),
            (9.996, "10.0"),
            (-12.34, "-12.3"),
            (123.4, "123"),
            (61_234.0, "61234"),
            (3.123e-5, "3.12e-5"),
            (1.5e9, "1.50e9"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn thousands_are_apart() {
        for (number, text) in [
            ("0", "0"),
            ("999", "999"),
            ("1000", "1,000"),
            ("123940", "123,940"),
            ("6123940", "6,123,940"),
            ("-123456.75", "-123,456.75"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_clock_has_the_units_that_it_needs() {
        for (seconds, text) in [
            (7, "0:07"),
            (754, "12:34"),
            (3723, "1:02:03"),
            (2 * 86_400 + 3 * 3600 + 4 * 60, "2 d 03:04"),
        ] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        for (size, text) in [
            (12, "12 bytes"),
            (495_760, "484 KiB"),
            (1024 * 1024, "1.00 MiB"),
            (5 << 30, "5.00 GiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }
}
