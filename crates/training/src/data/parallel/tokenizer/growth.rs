//! A bound on how much a tokeniser can lengthen a text.

use serde::Deserialize;
use serde_json::Value;

/// What is wrong with a file that has another format.
pub(super) const FOREIGN: &str = "is not a tokenizer.json of Hugging Face";

/// Maximum factor by which replacements may lengthen a text. Real tokenisers replace a blank by `▁`,
/// which has three bytes, once or twice.
const LARGEST: u64 = 1000;

/// The parts of a `tokenizer.json` that replace texts. The large ones are skipped.
#[derive(Deserialize)]
struct Replacing {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    decoder: Value,
}

/// Rejects a `tokenizer.json` whose replacements, one after the other, could turn a line into one
/// that does not fit into memory; returns what is wrong with it. Also rejects wrong JSON, on which
/// the library that parses tokenisers can panic.
pub(super) fn check_growth(json: &[u8]) -> Result<(), String> {
    let read: Replacing =
        serde_json::from_slice(json).map_err(|error| format!("{FOREIGN} ({error})"))?;
    for (name, part) in [("normalizer", read.normalizer), ("decoder", read.decoder)] {
        let factor = growth(&part);
        if factor > LARGEST {
            return Err(format!(
                "its {name} can make a text {factor} times as long, but only {LARGEST} times is accepted"
            ));
        }
    }
    Ok(())
}

/// Returns the factor by which the replacements in a part can lengthen a text.
fn growth(part: &Value) -> u64 {
    match part {
        Value::Array(parts) => product(parts.iter()),
        Value::Object(fields) => {
            // What `Replace`, `Prepend` and `Metaspace` insert.
            let inserted = ["content", "prepend", "replacement"];
            let inserted = inserted
                .iter()
                .filter_map(|name| fields.get(*name)?.as_str());
            let longest = inserted.map(str::len).max().unwrap_or(1);
            product(fields.values()).saturating_mul(longest.max(1) as u64)
        }
        _ => 1,
    }
}

fn product<'a>(parts: impl Iterator<Item = &'a Value>) -> u64 {
    parts.map(growth).fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replacements_multiply() {
        let replace = |content: &str| json!({"type": "Replace", "pattern": {"String": "a"}, "content": content});
        let file = |normalizers: Vec<Value>| {
            let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
            let file = json!({"model": {"vocab": {"content": "a".repeat(5000)}}, "normalizer": normalizer});
            check_growth(file.to_string().as_bytes())
        };
        assert_eq!(file(vec![replace("▁"), replace("a"), replace("")]), Ok(()));
        assert_eq!(file(vec![replace("0123456789"); 3]), Ok(()));
        let error = file(vec![replace("0123456789"); 4]).unwrap_err();
        let expected =
            "its normalizer can make a text 10000 times as long, but only 1000 times is accepted";
        assert_eq!(error, expected);
        assert!(file(vec![replace("0123456789"); 40]).is_err());
        assert_eq!(check_growth(b"{}"), Ok(()));
        for wrong in ["", "{", "7", "{} x"] {
            let error = check_growth(wrong.as_bytes()).unwrap_err();
            assert!(error.starts_with(FOREIGN), "{error}");
        }
    }
}
