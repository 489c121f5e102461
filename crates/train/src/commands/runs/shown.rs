//! Formats settings and numbers for tables.

use serde_json::Value;

use crate::args::flags::fit_flag_of;
use crate::number::ranges;

/// Returns the flag of `fit` that sets a setting, such as `--warmup`; `None` if there is no flag,
/// or more than one.
pub(super) fn flag(path: &str) -> Option<&str> {
    fit_flag_of(path).filter(|flag| !flag.contains(' '))
}

/// Formats a setting as on the command line: `--warmup 200`, or `PATH=VALUE` if no single flag
/// gives the setting this value.
pub(super) fn setting(path: &str, setting: &Value) -> String {
    match (flag(path), setting) {
        (Some(flag), Value::Bool(is_on)) if *is_on != flag.starts_with("--no-") => flag.into(),
        (Some(flag), setting) if !setting.is_null() && !setting.is_boolean() => {
            format!("{flag} {}", value(setting))
        }
        _ => format!("{path}={setting}"),
    }
}

/// Formats the value of a setting. A null, or a setting that the run does not have, becomes `-`.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => {
            let numbers: Option<Vec<u64>> = elements.iter().map(Value::as_u64).collect();
            let parts = match numbers {
                Some(numbers) => ranges(&numbers),
                None => elements.iter().map(self::value).collect(),
            };
            parts.join(",")
        }
        other => other.to_string(),
    }
}

/// Formats a number for a table.
///
/// Whole numbers below 1e9 keep all digits. Other numbers have two to four decimal places from
/// 0.001 to 1000, and none from 1000 to 1e9. Below 0.001 and from 1e9 on, numbers have an exponent,
/// as in `1.234e-4`.
pub(super) fn number(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() || number == number.round() && size < 1e9 {
        return format!("{number}");
    }
    match size {
        0.0..1e-3 | 1e9.. => format!("{number:.3e}"),
        0.0..1e3 => {
            let before = size.log10().floor().max(0.0) as usize;
            format!("{number:.*}", 4 - before)
        }
        _ => format!("{number:.0}"),
    }
}

/// Formats a fraction, such as exact match, with four decimal places.
pub(super) fn fraction(fraction: f64) -> String {
    format!("{fraction:.4}")
}

/// Formats a time in seconds, such as `9.5 s`, `2 min 05 s` or `1 h 02 min`.
pub(super) fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_shown_as_flags() {
        assert_eq!(
            setting("optimization.schedule.warmup", &json!(200)),
            "--warmup 200"
        );
        assert_eq!(setting("execution.fused", &json!(false)), "--no-fused");
        assert_eq!(
            setting("data.tokenizer.lower_case", &json!(true)),
            "--lower-case"
        );
        let beta = "optimization.optimizer.beta_2";
        assert_eq!(setting(beta, &json!(0.99)), format!("{beta}=0.99"));
        let clip = "optimization.optimizer.clip_norm";
        assert_eq!(setting(clip, &Value::Null), format!("{clip}=null"));
        let lengths = setting("evaluation.by_length.lengths", &json!([1, 2, 3, 7]));
        assert_eq!(lengths, "--eval-lengths 1..3,7");
    }

    #[test]
    fn numbers_have_four_digits() {
        let cases = [
            (0.0, "0"),
            (12.0, "12"),
            (123_940.0, "123940"),
            (0.98765, "0.9877"),
            (12.3456, "12.346"),
            (1234.56, "1235"),
            (51_234.5, "51234"),
            (0.000_031_23, "3.123e-5"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn times_are_read_easily() {
        assert_eq!(seconds(9.54), "9.5 s");
        assert_eq!(seconds(125.2), "2 min 05 s");
        assert_eq!(seconds(3720.0), "1 h 02 min");
    }
}
