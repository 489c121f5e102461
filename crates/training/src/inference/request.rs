//! Encodes lines of the input as token ids.

use serde::{Deserialize, Serialize};

use super::input::Line;
use crate::error::UsageError;
use crate::notes;
use crate::positions::{max_tokens, truncate_source};
use crate::run::checkpoint::TrainedRun;

/// A line of the input, encoded as token ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Source as it was written on the line.
    pub text: String,
    /// Token ids of the source.
    pub source: Vec<u32>,
    /// Token ids of the target to be scored; empty if an output is to be generated.
    pub target: Vec<u32>,
}

impl Request {
    /// Encodes a line for the model of a run; returns `None` for a blank line. If the data set has
    /// a tokeniser, a text with too many tokens for the model is truncated, with a warning.
    ///
    /// `has_target` says whether the line has the form `SOURCE<TAB>TARGET`.
    ///
    /// # Errors
    ///
    /// If a word is not a symbol of a data set without a tokeniser, if such a data set gets too
    /// many symbols, or if `has_target` is true and the line has another form.
    pub(super) fn encode(
        run: &TrainedRun,
        line: &Line,
        has_target: bool,
    ) -> Result<Option<Self>, UsageError> {
        if line.is_blank() {
            return Ok(None);
        }
        let (text, target) = if has_target {
            match line.text.split_once('\t') {
                Some((source, target)) if !target.contains('\t') => (source, target),
                _ => return Err(line.wrong("must be SOURCE<TAB>TARGET, with one tab")),
            }
        } else {
            (&line.text[..], "")
        };
        let source = encode(run, line, "source", text)?;
        let target = encode(run, line, "target", target)?;
        if source.is_empty() {
            return Err(line.wrong("has no source before its tab"));
        }
        Ok(Some(Self {
            line: line.number,
            text: text.into(),
            source,
            target,
        }))
    }
}

/// Encodes the source or the target of a line. `side` is `source` or `target`. A side with too many
/// tokens for the model is truncated if the data set says so; otherwise it is an error.
fn encode(run: &TrainedRun, line: &Line, side: &str, text: &str) -> Result<Vec<u32>, UsageError> {
    let (codec, is_source) = (run.dataset.codec(), side == "source");
    let encoded = if is_source {
        codec.encode_source(text)
    } else {
        codec.encode_target(text)
    };
    let mut ids = encoded.map_err(|error| line.wrong(error.to_string()))?;
    // The decoder reads the begin symbol before the target, so the target has one position fewer.
    let max_tokens = max_tokens(&run.config.model) - usize::from(!is_source);
    let count = ids.len();
    if count <= max_tokens {
        return Ok(ids);
    }
    let limit = format!("more than the {max_tokens} that this model can take");
    if !run.dataset.limits().truncates {
        return Err(line.wrong(format!("its {side} has {count} symbols, {limit}")));
    }
    let error = line.wrong(format!("its {side} has {count} tokens, {limit}: truncated"));
    notes::warn(&error.to_string());
    if is_source {
        truncate_source(&mut ids, max_tokens);
    } else {
        ids.truncate(max_tokens);
    }
    Ok(ids)
}
