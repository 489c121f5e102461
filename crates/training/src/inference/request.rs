//! Lines as token ids.

use super::input::Line;
use crate::data::EncodeError;
use crate::error::UsageError;
use crate::notes;
use crate::positions::{max_tokens, truncate_source};
use crate::run::checkpoint::TrainedRun;

/// A line as token ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Source as it was written on the line.
    pub text: String,
    /// Token ids of the source.
    pub source: Vec<u32>,
    /// Token ids of the target that is scored; empty for a generation.
    pub target: Vec<u32>,
}

impl Request {
    /// Encodes a line for the model of a run; `None` for a blank one. Texts of more tokens than the
    /// model can take are truncated, with a warning.
    ///
    /// `has_target` says whether the line has a target after the source and a tab.
    ///
    /// # Errors
    ///
    /// Words that are not tokens, or more symbols than the model can take.
    pub(super) fn encode(
        run: &TrainedRun,
        line: &Line,
        has_target: bool,
    ) -> Result<Option<Self>, UsageError> {
        if line.is_blank() {
            return Ok(None);
        }
        let (text, target) = match has_target {
            false => (&line.text[..], ""),
            true => match line.text.split_once('\t') {
                Some((source, target)) if !target.contains('\t') => (source, target),
                _ => return Err(line.wrong("must be SOURCE<TAB>TARGET, with one tab")),
            },
        };
        let max_tokens = max_tokens(&run.config.model);
        let max_bytes = run.dataset.limits().bytes;
        let side = |what, max_tokens| Side {
            line,
            what,
            max_tokens,
            max_bytes,
        };
        let codec = run.dataset.codec();
        let encode = |text: &str| codec.encode_source(text);
        let source = side("source", max_tokens).encode(text, encode)?;
        // The decoder reads the begin symbol before the target, and predicts the end symbol after
        // it.
        let encode = |text: &str| codec.encode_target(text);
        let target = side("target", max_tokens - 1).encode(target, encode)?;
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

/// The source or the target of a line, and its limits.
struct Side<'a> {
    line: &'a Line,
    /// `source` or `target`.
    what: &'static str,
    max_tokens: usize,
    /// Limit of texts, which are truncated; `None` for symbols, which are not.
    max_bytes: Option<usize>,
}

impl Side<'_> {
    fn encode(
        &self,
        text: &str,
        encode: impl Fn(&str) -> Result<Vec<u32>, EncodeError>,
    ) -> Result<Vec<u32>, UsageError> {
        let Self {
            line,
            what,
            max_tokens,
            max_bytes,
        } = *self;
        if let Some(most) = max_bytes.filter(|&most| text.len() > most) {
            let count = text.len();
            let limit = format!("too many for the maximum length, at most {most}");
            return Err(line.wrong(format!("its {what} has {count} bytes, {limit}")));
        }
        let mut ids = encode(text).map_err(|error| line.wrong(error.to_string()))?;
        let count = ids.len();
        if count <= max_tokens {
            return Ok(ids);
        }
        let limit = format!("more than the {max_tokens} that this model can take");
        if max_bytes.is_none() {
            return Err(line.wrong(format!("its {what} has {count} symbols, {limit}")));
        }
        let error = line.wrong(format!("its {what} has {count} tokens, {limit}: truncated"));
        notes::warn(&error.to_string());
        if what == "source" {
            truncate_source(&mut ids, max_tokens);
        } else {
            ids.truncate(max_tokens);
        }
        Ok(ids)
    }
}
