//! Evaluations by length, and exact match by length as a table or as JSON.

use anyhow::Result;
use training::config::{LengthsConfig, RunConfig};
use training::data::{Dataset, Split};
use training::error::UsageError;
use training::evaluation::{ByLength, LengthScore, LengthSettings, lengthened};
use transformer::generate::{GenerateConfig, Method};

use crate::args::check_generation;
use crate::metric;
use crate::terminal::output;

/// Returns the settings of the evaluation by length at the end of training; `None` if the run does
/// not have one. `dataset` is `None` for texts that are not read yet.
///
/// # Errors
///
/// An evaluation by length of texts, or lengths for which the search needs too much memory.
pub(super) fn at_end(
    config: &RunConfig,
    dataset: Option<&dyn Dataset>,
) -> Result<Option<LengthSettings>, UsageError> {
    let Some(asked) = &config.evaluation.by_length else {
        return Ok(None);
    };
    length_settings(asked, config, dataset, Split::Test, Method::Greedy, None).map(Some)
}

/// Returns the settings of an evaluation by length on `split`. Checks that the decoder cache fits
/// into memory.
///
/// # Errors
///
/// A data set that is not a synthetic task, a search that is not valid, or one that needs too much
/// memory.
pub(super) fn length_settings(
    asked: &LengthsConfig,
    run: &RunConfig,
    dataset: Option<&dyn Dataset>,
    split: Split,
    method: Method,
    batch_size: Option<usize>,
) -> Result<LengthSettings, UsageError> {
    let task = ByLength::task_of(dataset)?;
    let model = lengthened(&run.model, task, &asked.lengths);
    let longest = GenerateConfig::new(model.max_len).with_method(method);
    let rows = batch_size.unwrap_or(1).min(asked.sequences);
    check_generation(&longest, &model, rows)?;
    Ok(LengthSettings {
        seed: run.seed,
        split,
        sequences: asked.sequences,
        method,
        batch_size,
    })
}

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
    let mut without = Vec::new();
    for &length in lengths {
        let row = by_length.of_length(length, settings)?;
        if json || row.sequences > 0 {
            output::json_or(json, &row, || line(&row))?;
        } else {
            without.push(length);
        }
        rows.push(row);
    }
    let of = match without[..] {
        [] => return Ok(rows),
        [length] => format!("length {length}"),
        [first, .., last] => format!("{} lengths from {first} to {last}", without.len()),
    };
    output::warn(&format!(
        "no score for {of}: the model has no positions for it, or the split no sequence"
    ));
    Ok(rows)
}

fn line(row: &LengthScore) -> String {
    let share = |share: Option<f64>| metric::text("exact_match", share.unwrap_or_default());
    let mark = if row.trained { "  trained" } else { "" };
    let (exact, tokens) = (share(row.exact_match), share(row.token_accuracy));
    let (length, sequences) = (row.length, row.sequences);
    format!("{length:>6}  {sequences:>9}  {exact:>11}  {tokens:>14}{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_with_their_header() {
        let row = LengthScore {
            length: 16,
            sequences: 250,
            exact_match: Some(1.0),
            token_accuracy: Some(0.987_65),
            trained: true,
        };
        let expected = "    16        250       1.0000          0.9877  trained";
        assert_eq!(line(&row), expected);
        let json = r#"{"length":16,"sequences":250,"exact_match":1.0,"token_accuracy":0.98765,"trained":true}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), json);
    }
}
