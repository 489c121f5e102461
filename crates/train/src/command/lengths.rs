//! Exact match by length: a table on stdout, and `lengths.json` in the run folder.

use std::path::Path;

use anyhow::Result;

use crate::lengths::{ByLength, LengthScore, LengthSettings, save};
use crate::output;

/// Prints a row for each length as it comes, and writes the file.
///
/// # Errors
///
/// If stdout or the file cannot be written.
pub(super) fn report(
    by_length: &ByLength,
    lengths: &[usize],
    settings: &LengthSettings,
    json: bool,
    folder: &Path,
) -> Result<()> {
    if !json {
        output::result("length  sequences  exact match  token accuracy")?;
    }
    let mut rows = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let row = by_length.of_length(length, settings);
        output::result(&line(&row, json)?)?;
        rows.push(row);
    }
    save(folder, &rows)
}

fn line(row: &LengthScore, json: bool) -> Result<String> {
    if json {
        return Ok(serde_json::to_string(row)?);
    }
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.4}"));
    let mark = if row.trained { "  trained" } else { "" };
    Ok(format!(
        "{:>6}  {:>9}  {:>11}  {:>14}{mark}",
        row.length,
        row.sequences,
        share(row.exact_match),
        share(row.token_accuracy)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_under_their_header() {
        let mut row = LengthScore {
            length: 16,
            sequences: 250,
            exact_match: Some(1.0),
            token_accuracy: Some(0.98765),
            trained: true,
        };
        let expected = "    16        250       1.0000          0.9877  trained";
        assert_eq!(line(&row, false).unwrap(), expected);
        row = LengthScore {
            sequences: 0,
            exact_match: None,
            token_accuracy: None,
            trained: false,
            ..row
        };
        let expected = "    16          0            -               -";
        assert_eq!(line(&row, false).unwrap(), expected);
        let json = r#"{"length":16,"sequences":0,"exact_match":null,"token_accuracy":null,"trained":false}"#;
        assert_eq!(line(&row, true).unwrap(), json);
    }
}
