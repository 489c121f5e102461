//! Formats settings as on the command line.

use serde_json::Value;

use training::setting::shown;

use crate::args::flags::fit_flag_of;

/// Returns the flag of `fit` that sets a setting, such as `--warmup`; `None` if there is no flag,
/// or more than one.
pub(super) fn flag(path: &str) -> Option<&str> {
    fit_flag_of(path).filter(|flag| !flag.contains(' '))
}

/// Formats a setting as on the command line: `--warmup 200`, or `PATH=VALUE` if no single flag
/// gives the setting this value.
pub(super) fn setting(path: &str, setting: &Value) -> String {
    match (flag(path), setting) {
        (Some(flag), Value::Bool(true)) => flag.into(),
        (Some(flag), setting) if !setting.is_null() && !setting.is_boolean() => {
            format!("{flag} {}", shown(setting))
        }
        _ => format!("{path}={setting}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_shown_as_flags() {
        let beta = "optimization.optimizer.beta_2";
        let clip = "optimization.optimizer.clip_norm";
        for (path, value, expected) in [
            ("optimization.schedule.warmup", json!(200), "--warmup 200"),
            ("data.tokenizer.lower_case", json!(true), "--lower-case"),
            (
                "evaluation.by_length.lengths",
                json!([1, 2, 3]),
                "--eval-lengths 1,2,3",
            ),
            (beta, json!(0.99), &format!("{beta}=0.99")),
            (clip, Value::Null, &format!("{clip}=null")),
        ] {
            assert_eq!(setting(path, &value), expected);
        }
    }
}
