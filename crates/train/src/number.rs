//! Formats numbers, durations and sizes as readable text.

use indicatif::BinaryBytes;
pub use training::number::{counted, grouped};

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
            let digits = if before < 3 { 4 - before } else { 0 };
            grouped(format_args!("{number:.digits$}"))
        }
    }
}

/// Returns a time in seconds as text, such as `0.01 s`, `9.54 s`, `12.3 s`, `2 min 05 s` or
/// `1 h 02 min`.
pub fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 9.995 => format!("{seconds:.2} s"),
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Returns a size, given in bytes, as text such as `484.14 KiB`.
pub fn bytes(bytes: usize) -> String {
    BinaryBytes(bytes as u64).to_string()
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
    }

    #[test]
    fn times_and_sizes_have_the_units_that_they_need() {
        assert_eq!(seconds(0.0123), "0.01 s");
        assert_eq!(seconds(9.54), "9.54 s");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(125.2), "2 min 05 s");
        assert_eq!(seconds(3720.0), "1 h 02 min");
        assert_eq!(bytes(495_760), "484.14 KiB");
    }
}
