//! Formats numbers, durations and sizes as readable text.

use std::fmt::Display;
use std::time::Duration;

/// Returns a number with about four significant digits, such as `2.3126`, `0.00312`, `1,235` or
/// `3.12e-5`.
pub fn short(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() || number == number.round() && size < 1e9 {
        return grouped(number);
    }
    match size {
        0.0..1e-3 | 1e9.. => format!("{number:.2e}"),
        0.0..1e-2 => format!("{number:.5}"),
        _ => {
            let before = size.log10().floor().clamp(0.0, 4.0) as usize;
            grouped(format_args!(
                "{number:.*}",
                if before < 3 { 4 - before } else { 0 }
            ))
        }
    }
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

/// Returns a time in seconds as text, such as `9.5 s`, `2 min 05 s` or `1 h 02 min`.
pub fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
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
    let decimals = match size {
        _ if unit == 0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{size:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_four_digits_at_any_size() {
        for (value, text) in [
            (0.0, "0"),
            (12.0, "12"),
            (123_940.0, "123,940"),
            (0.987_65, "0.9877"),
            (2.312_58, "2.3126"),
            (12.3456, "12.346"),
            (123.456, "123.46"),
            (1234.56, "1,235"),
            (-61_234.5, "-61,234"),
            (0.003_123, "0.00312"),
            (3.123e-5, "3.12e-5"),
            (1.55e9, "1.55e9"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(grouped("-123456.75"), "-123,456.75");
    }

    #[test]
    fn times_and_sizes_have_the_units_that_they_need() {
        for (seconds, text) in [
            (7, "0:07"),
            (754, "12:34"),
            (3723, "1:02:03"),
            (2 * 86_400 + 3 * 3600 + 4 * 60, "2 d 03:04"),
        ] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
        assert_eq!(seconds(9.54), "9.5 s");
        assert_eq!(seconds(125.2), "2 min 05 s");
        assert_eq!(seconds(3720.0), "1 h 02 min");
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
