//! Formats results as lines of plain text or JSON.

use anyhow::Result;
use transformer::generate::{Hypothesis, TargetScore};

use super::records::{Alignment, Rejected, Score, Target, Targets, to_line};
use super::request::Request;
use crate::data::Codec;
use crate::error::UsageError;

/// Returns a text as one line: blanks replace its line breaks.
pub fn one_line(text: &str) -> String {
    text.replace(
        [
            '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
        ],
        " ",
    )
}

/// Formats results as lines, each with its line break.
pub(super) struct Format<'a> {
    pub(super) codec: &'a dyn Codec,
    /// Whether lines are JSON instead of plain text.
    pub(super) is_json: bool,
    /// Whether a source can have several outputs. Plain-text lines then begin with line number and
    /// score.
    pub(super) is_n_best: bool,
}

impl Format<'_> {
    /// Returns the outputs of a request: one line for each output in plain text, or one line for
    /// all of them in JSON. `alignments` has one element for each output, and is used only in JSON.
    pub(super) fn targets(
        &self,
        request: &Request,
        outputs: Vec<Hypothesis>,
        alignments: Option<Vec<Alignment>>,
    ) -> Result<String> {
        let decode = |ids: &[u32]| self.codec.decode_target(ids);
        if self.is_json {
            let alignments = alignments.into_iter().flatten().map(Some);
            let alignments = alignments.chain(std::iter::repeat(None));
            let target = |(output, alignment): (Hypothesis, _)| Target {
                target: decode(&output.tokens),
                score: output.score,
                log_probability: output.log_probability,
                tokens: self.token_names(&output.tokens),
                token_log_probabilities: output.token_log_probabilities,
                finished: output.is_finished,
                alignment,
            };
            return to_line(&Targets {
                line: request.line,
                source: &request.text,
                hypotheses: outputs.into_iter().zip(alignments).map(target).collect(),
            });
        }
        let line = |output: &Hypothesis| {
            let target = one_line(&decode(&output.tokens));
            if self.is_n_best {
                format!("{}\t{:.4}\t{target}\n", request.line, output.score)
            } else {
                format!("{target}\n")
            }
        };
        Ok(outputs.iter().map(line).collect())
    }

    /// Returns the line with the score of a request's target.
    pub(super) fn score(&self, request: &Request, score: &TargetScore) -> Result<String> {
        if self.is_json {
            return to_line(&self.score_record(request, Some(score)));
        }
        Ok(format!("{:.4}\n", score.log_probability))
    }

    fn score_record<'b>(&self, request: &'b Request, score: Option<&'b TargetScore>) -> Score<'b> {
        Score {
            line: request.line,
            source: &request.text,
            target: self.codec.decode_target(&request.target),
            log_probability: score.map(|score| score.log_probability),
            tokens: self.token_names(&request.target),
            token_log_probabilities: score.map_or(&[], |score| &score.token_log_probabilities),
        }
    }

    /// Returns the result of a blank line. `is_score` says whether targets are scored, not
    /// generated.
    pub(super) fn blank(&self, line: u64, is_score: bool) -> Result<String> {
        let request = Request {
            line,
            ..Request::default()
        };
        match (self.is_json, is_score) {
            (true, false) => self.targets(&request, Vec::new(), None),
            (true, true) => to_line(&self.score_record(&request, None)),
            (false, _) => Ok(self.empty(line)),
        }
    }

    /// Returns the result of a rejected line: `error` in JSON, an empty output in plain text.
    pub(super) fn rejected(&self, line: u64, error: &UsageError) -> Result<String> {
        if self.is_json {
            let error = error.to_string();
            return to_line(&Rejected { line, error });
        }
        Ok(self.empty(line))
    }

    fn empty(&self, line: u64) -> String {
        if self.is_n_best {
            format!("{line}\t\t\n")
        } else {
            "\n".into()
        }
    }

    fn token_names(&self, ids: &[u32]) -> Vec<String> {
        let names = ids.iter().map(|&id| self.codec.target_token(id));
        names.collect()
    }
}
