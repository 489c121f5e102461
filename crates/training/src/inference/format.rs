//! Formats results as lines of plain text or JSON, each with its line break.

use anyhow::Result;
use transformer::generate::{Hypothesis, TargetScore};

use super::predictor::Predictor;
use super::records::{Alignment, Rejected, Score, Target, Targets, one_line, to_line};
use super::request::Request;
use super::work::Work;
use crate::error::UsageError;

impl Predictor<'_> {
    /// Returns the outputs of a request: one line for each output in plain text, or one line for
    /// all of them in JSON. `alignments` has one element for each output, and is used only in JSON.
    pub(super) fn targets(
        &self,
        request: &Request,
        outputs: Vec<Hypothesis>,
        alignments: Option<Vec<Alignment>>,
    ) -> Result<String> {
        let decode = |ids: &[u32]| self.codec().decode_target(ids);
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
            if self.is_n_best() {
                format!("{}\t{:.4}\t{target}\n", request.line, output.score)
            } else {
                format!("{target}\n")
            }
        };
        Ok(outputs.iter().map(line).collect())
    }

    /// Returns the line with the score of a request's target.
    pub(super) fn score_line(&self, request: &Request, score: &TargetScore) -> Result<String> {
        if self.is_json {
            return to_line(&self.score_record(request, Some(score)));
        }
        Ok(format!("{:.4}\n", score.log_probability))
    }

    fn score_record<'b>(&self, request: &'b Request, score: Option<&'b TargetScore>) -> Score<'b> {
        Score {
            line: request.line,
            source: &request.text,
            target: self.codec().decode_target(&request.target),
            log_probability: score.map(|score| score.log_probability),
            tokens: self.token_names(&request.target),
            token_log_probabilities: score.map_or(&[], |score| &score.token_log_probabilities),
        }
    }

    /// Returns the result of a blank line.
    ///
    /// # Errors
    ///
    /// If the result cannot be written as JSON. No such case is known.
    pub fn blank(&self, line: u64) -> Result<String> {
        let request = Request {
            line,
            ..Request::default()
        };
        match (self.is_json, self.is_score()) {
            (true, false) => self.targets(&request, Vec::new(), None),
            (true, true) => to_line(&self.score_record(&request, None)),
            (false, _) => Ok(self.empty(line)),
        }
    }

    /// Returns the result of a line that was rejected with `error`: the error in JSON, an empty
    /// output in plain text.
    ///
    /// # Errors
    ///
    /// If the result cannot be written as JSON. No such case is known.
    pub fn rejected(&self, line: u64, error: &UsageError) -> Result<String> {
        if self.is_json {
            let error = error.to_string();
            return to_line(&Rejected { line, error });
        }
        Ok(self.empty(line))
    }

    /// Returns whether a source can have several outputs. Plain-text lines then begin with line
    /// number and score.
    fn is_n_best(&self) -> bool {
        matches!(&self.work, Work::Generate(generation) if generation.config.n_best > 1)
    }

    fn empty(&self, line: u64) -> String {
        if self.is_n_best() {
            format!("{line}\t\t\n")
        } else {
            "\n".into()
        }
    }

    fn token_names(&self, ids: &[u32]) -> Vec<String> {
        let names = ids.iter().map(|&id| self.codec().target_token(id));
        names.collect()
    }
}
