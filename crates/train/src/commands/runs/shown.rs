//! Formats settings as on the command line.

use serde_json::Value;
use training::config::differences::{NearestPreset, Settings};
use training::config::setting_at;
use training::setting::shown;

use crate::args::flags::fit_flag_of;
use crate::args::implied;

/// Maximum width of a name, a heading or a value of a setting, in terminal columns. Three of them fit
/// beside the names of metrics in a terminal of 80 columns.
const CELL: usize = 18;

/// Shortens a text in its middle to [`CELL`] columns, because names of runs often differ at the end.
pub(super) fn shortened(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= CELL {
        return text.into();
    }
    let (begin, end) = (&chars[..CELL / 2], &chars[chars.len() + 1 - CELL / 2..]);
    let [begin, end] = [begin, end].map(|part| part.iter().collect::<String>());
    format!("{begin}…{end}")
}

/// Returns the settings that the user has chosen: those that differ from the preset, and from what
/// the flags of others set.
pub(super) fn chosen(nearest: &NearestPreset) -> Settings {
    let mut chosen = nearest.changed.clone();
    for (path, implied) in implied(&nearest.changed) {
        let own = chosen.remove(&path);
        let own = own.or_else(|| nearest.preset.get(&path).cloned());
        let own = own.unwrap_or(Value::Null);
        if own != implied {
            chosen.insert(path, own);
        }
    }
    chosen
}

/// Formats the value of the setting at `path` as on the command line.
pub(super) fn on_line(path: &str, value: &Value) -> String {
    setting_at(path).map_or_else(|| shown(value), |setting| setting.shown(value))
}

/// Formats a setting as on the command line: `--warmup 200`, or `PATH=VALUE` if no single flag
/// gives the setting this value.
pub(super) fn setting(path: &str, setting: &Value) -> String {
    match (fit_flag_of(path), setting) {
        (Some(flag), Value::Bool(true)) => flag.into(),
        (Some(flag), setting) if !setting.is_null() && !setting.is_boolean() => {
            format!("{flag} {}", on_line(path, setting))
        }
        _ => format!("{path}={setting}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(shortened("base-rate-3, 3 seeds"), "base-rate… 3 seeds");
        assert_eq!(shortened(&"é".repeat(18)), "é".repeat(18));
    }

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
