//! Prints exact match by length as a table or as JSON.

use anyhow::Result;
use training::evaluation::{ByLength, LengthScore, LengthSettings};

use crate::terminal::output;

/// Evaluates the model on each length, prints a row for each, and returns the scores of all
/// lengths.
///
/// # Errors
///
/// If stdout cannot be written, or generation fails.
pub(super) fn report(
    by_length: &ByLength,
    lengths: &[usize],
    settings: &LengthSettings,
    json: bool,
) -> Result<Vec<LengthScore>> {
    if !json {
        output::result("length  sequences  exact match  token accuracy")?;
    }
    let mut rows = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let row = by_length.of_length(length, settings)?;
        output::json_or(json, &row, || line(&row))?;
        rows.push(row);
    }
    Ok(rows)
}

fn line(row: &LengthScore) -> String {
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.4}"));
    let mark = if row.trained { "  trained" } else { "" };
    let (exact, tokens) = (share(row.exact_match), share(row.token_accuracy));
    let LengthScore {
        length, sequences, ..
    } = row;
    format!("{length:>6}  {sequences:>9}  {exact:>11}  {tokens:>14}{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_with_their_header() {
        let mut row = LengthScore {
            length: 16,
            sequences: 250,
            exact_match: Some(1.0),
            token_accuracy: Some(0.98765),
            trained: true,
        };
        let expected = "    16        250       1.0000          0.9877  trained";
        assert_eq!(line(&row), expected);
        row = LengthScore {
            sequences: 0,
            exact_match: None,
            token_accuracy: None,
            trained: false,
            ..row
        };
        let expected = "    16          0            -               -";
        assert_eq!(line(&row), expected);
        let json = r#"{"length":16,"sequences":0,"exact_match":null,"token_accuracy":null,"trained":false}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), json);
    }
}
