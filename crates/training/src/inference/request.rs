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

/// Encodes the source or the target of a line. `side` is `source` or `target`. A side with too many
/// tokens for the model is truncated if the data set says so; otherwise it is an error.
pub(super) fn encode(
    run: &TrainedRun,
    line: &Line,
    side: &str,
    text: &str,
) -> Result<Vec<u32>, UsageError> {
    let (codec, model, is_source) = (run.dataset.codec(), &run.config.model, side == "source");
    let (encoded, size) = if is_source {
        (run.dataset.source(text), model.source_vocab_size)
    } else {
        let encoded = codec.encode_target(text);
        let encoded = encoded.map_err(|error| error.to_string());
        (encoded, model.target_vocab_size)
    };
    let mut ids = encoded.map_err(|what| line.wrong(what))?;
    // A published model may have fewer rows than its tokeniser has special tokens.
    if let Some(&id) = ids.iter().find(|&&id| id as usize >= size) {
        let name = &[codec.source_token(id), codec.target_token(id)][usize::from(!is_source)];
        let what =
            format!("its {side} has {name}, the token {id}, but ids of this model are 0..{size}");
        return Err(line.wrong(what));
    }
    // The decoder reads the begin symbol before the target, so the target has one position fewer.
    let max_tokens = max_tokens(model) - usize::from(!is_source);
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
