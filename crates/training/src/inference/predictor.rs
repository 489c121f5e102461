//! Generates outputs, or scores given targets, for lines of text.

use std::borrow::Cow;

use anyhow::Result;
use serde_json::Value;
use transformer::generate::{GenerateError, Hypothesis, Method, TargetScore};
use transformer::{Transformer, batches_by_length};

use super::input::Line;
use super::records::{Alignment, Score, Target, Targets, one_line, to_line};
use super::request::{Request, encode};
use super::work::{Generation, Work};
use crate::data::{Codec, UnknownCounts};
use crate::error::UsageError;
use crate::positions::{max_output, with_room};
use crate::run::checkpoint::TrainedRun;

/// Maximum number of source tokens in a batch of several requests, padding included.
const BATCH_TOKENS: usize = 1 << 14;

/// Generates outputs, or scores given targets, with the model of a run.
///
/// ```
/// use burn::tensor::Device;
/// use training::config::RunConfig;
/// use training::inference::{Generation, Line, Predictor, Work};
/// use training::run::checkpoint::TrainedRun;
/// use transformer::generate::GenerateConfig;
///
/// // `TrainedRun::load` would read a run folder. This example uses an untrained model.
/// let mut config = RunConfig::copy();
/// let dataset = config.check()?.expect("copy needs no files");
/// let model = config.model.init_seeded(config.seed, &Device::flex())?;
/// let run = TrainedRun { config, dataset, step: 0, model };
///
/// let vocabularies = run.dataset.codec().vocabularies();
/// let generation = Generation {
///     config: GenerateConfig::new(5)
///         .with_bos_id(Some(vocabularies.bos_id))
///         .with_eos_id(vocabularies.eos_id),
///     prefix: run.dataset.codec().encode_target("7")?,
///     alignments: false,
///     extends: true,
/// };
/// let predictor = Predictor::new(&run, Work::Generate(generation), false);
/// let line = |text: &str| Line { number: 1, text: text.into() };
///
/// let request = predictor.request(&line("3 1 2"))?.expect("the line is not blank");
/// let outputs = predictor.predict(&[request], &mut |_| ())?;
/// assert_eq!(outputs.len(), 1);
/// assert!(outputs[0].starts_with('7') && outputs[0].ends_with('\n'));
///
/// let error = predictor.request(&line("3 99")).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"line 1 "3 99": "99" is not a symbol, which are 1 to 32 in this run"#
/// );
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Predictor<'a> {
    run: &'a TrainedRun,
    pub(super) work: Work,
    is_json: bool,
    /// Maximum number of requests that are processed at once; no limit by default.
    pub batch_size: usize,
}

impl<'a> Predictor<'a> {
    /// Creates a predictor. Its results are lines of JSON if `is_json`, else of plain text.
    pub fn new(run: &'a TrainedRun, work: Work, is_json: bool) -> Self {
        Self {
            run,
            work,
            is_json,
            batch_size: usize::MAX,
        }
    }

    /// Encodes a line as a request; returns `None` for a blank line. If the data set has a
    /// tokeniser, a text with too many tokens for the model is truncated, with a warning.
    ///
    /// # Errors
    ///
    /// If a word is not a symbol of a data set without a tokeniser, if such a data set gets too
    /// many symbols, or if a line to be scored is not `SOURCE<TAB>TARGET`.
    pub fn request(&self, line: &Line) -> Result<Option<Request>, UsageError> {
        if line.text.trim().is_empty() {
            return Ok(None);
        }
        let (text, target) = if self.is_score() {
            match line.text.split_once('\t') {
                Some((source, target)) if !target.contains('\t') => (source, target),
                _ => return Err(line.wrong("must be SOURCE<TAB>TARGET, with one tab")),
            }
        } else {
            (&line.text[..], "")
        };
        let source = encode(self.run, line, "source", text)?;
        let target = encode(self.run, line, "target", target)?;
        if source.is_empty() {
            return Err(line.wrong("has no source before its tab"));
        }
        Ok(Some(Request {
            line: line.number,
            text: text.into(),
            source,
            target,
        }))
    }

    /// Returns the result of each request as text, with line breaks.
    ///
    /// Requests of similar lengths share a batch, but samples keep the order of their lines. A batch
    /// of long requests is smaller than `batch_size`. After each batch, `report` gets the number of
    /// its requests.
    ///
    /// # Errors
    ///
    /// If the model cannot process a request with these settings, or if an output of the model is
    /// not finite.
    pub fn predict(
        &self,
        requests: &[Request],
        report: &mut dyn FnMut(usize),
    ) -> Result<Vec<String>> {
        let batches: Vec<Vec<usize>> = if self.is_sampled() {
            let indices: Vec<usize> = (0..requests.len()).collect();
            indices.chunks(self.batch_size).map(<[_]>::to_vec).collect()
        } else {
            let lengths = requests.iter().map(|it| [it.source.len(), it.target.len()]);
            let lengths: Vec<[usize; 2]> = lengths.collect();
            batches_by_length(&lengths, self.batch_size, BATCH_TOKENS)
        };
        let mut results = vec![String::new(); requests.len()];
        // The longest come first, so that a lack of memory shows at once.
        for batch in batches.into_iter().rev() {
            for indices in batch.chunk_by(|&a, &b| self.can_share(&requests[a], &requests[b])) {
                let requests: Vec<&Request> = indices.iter().map(|&it| &requests[it]).collect();
                for (index, result) in indices.iter().zip(self.results(&requests)?) {
                    results[*index] = result;
                }
                report(indices.len());
            }
        }
        Ok(results)
    }

    /// Returns the results of requests that can share a search.
    pub(super) fn results(&self, requests: &[&Request]) -> Result<Vec<String>> {
        match &self.work {
            Work::Generate(generation) => {
                let outputs = self.generate(requests, generation)?;
                let is_aligned = generation.alignments;
                let aligned = is_aligned.then(|| self.align(requests, &outputs));
                let mut alignments = aligned.transpose()?.into_iter().flatten();
                let line = |(request, outputs)| self.targets(request, outputs, &mut alignments);
                Ok(requests.iter().copied().zip(outputs).map(line).collect())
            }
            Work::Score => {
                let json =
                    |(request, score): (&&_, _)| to_line(&self.score_record(request, Some(score)));
                let scores = self.score(requests)?;
                if self.is_json {
                    return Ok(requests.iter().zip(&scores).map(json).collect());
                }
                let line = |score: &TargetScore| format!("{:.4}\n", score.log_probability);
                Ok(scores.iter().map(line).collect())
            }
        }
    }

    fn is_sampled(&self) -> bool {
        matches!(&self.work, Work::Generate(all) if matches!(all.config.method, Method::Sample { .. }))
    }

    fn is_score(&self) -> bool {
        matches!(self.work, Work::Score)
    }

    /// Returns what translates between text and the token ids of the run's model.
    pub fn codec(&self) -> &dyn Codec {
        self.run.dataset.codec()
    }

    /// Adds the numbers of unknown tokens of a request to `counts`, and those of all its tokens.
    pub fn count_unknown(&self, request: &Request, counts: &mut UnknownCounts) {
        let texts = [&request.source[..], &request.target[..]];
        self.codec().count_unknown(texts, counts);
    }

    /// Returns whether one search can decode two consecutive requests. Their outputs must have the
    /// same maximum length. If tokens are sampled, the line numbers must also be consecutive,
    /// because a search derives the random draws from line numbers that increase by one per source.
    fn can_share(&self, a: &Request, b: &Request) -> bool {
        let is_next = !self.is_sampled() || a.line + 1 == b.line;
        is_next && self.max_output(a) == self.max_output(b)
    }

    /// Returns the maximum number of tokens of the output for a request.
    pub(super) fn max_output(&self, request: &Request) -> usize {
        let Work::Generate(generation) = &self.work else {
            return 0;
        };
        let config = &generation.config;
        // Without an end symbol, the model cannot end an output, so `extends` is ignored.
        if generation.extends && config.eos_id.is_some() {
            let (limits, model) = (self.run.dataset.limits(), &self.run.config.model);
            max_output(request.source.len(), config.max_length, &limits, model)
        } else {
            config.max_length
        }
    }

    /// Returns the model, with enough positions for the sources and targets of `requests` and for
    /// outputs of `max_length` tokens, unless its positions are learned.
    pub(super) fn model(&self, requests: &[&Request], max_length: usize) -> Cow<'_, Transformer> {
        // The decoder reads the begin symbol before the target.
        let tokens = |request: &&Request| request.source.len().max(request.target.len() + 1);
        let longest = requests.iter().map(tokens).max().unwrap_or(0);
        let tokens = longest.max(max_length);
        with_room(&self.run.model, tokens)
    }

    fn generate(
        &self,
        requests: &[&Request],
        generation: &Generation,
    ) -> Result<Vec<Vec<Hypothesis>>> {
        let sources = sources(requests);
        let prefixes = vec![&generation.prefix[..]; sources.len()];
        let max_length = self.max_output(requests[0]);
        let config = generation.config_at(requests[0].line, max_length);
        let model = self.model(requests, max_length);
        let outputs = model.complete(&sources, &prefixes, &config);
        outputs.map_err(|error| error_of(requests, error))
    }

    fn score(&self, requests: &[&Request]) -> Result<Vec<TargetScore>> {
        let ids = self.codec().vocabularies();
        let targets: Vec<&[u32]> = requests.iter().map(|request| &request.target[..]).collect();
        let (model, sources) = (self.model(requests, 0), sources(requests));
        let scores = model.score(&sources, &targets, ids.bos_id, ids.eos_id);
        scores.map_err(|error| error_of(requests, error))
    }

    /// Returns the alignments of all outputs of all requests, from the last decoder layer.
    fn align(&self, requests: &[&Request], outputs: &[Vec<Hypothesis>]) -> Result<Vec<Alignment>> {
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for (request, outputs) in requests.iter().zip(outputs) {
            sources.extend(vec![&request.source[..]; outputs.len()]);
            targets.extend(outputs.iter().map(|output| &output.tokens[..]));
        }
        let last_layer = self.run.config.model.n_decoder_layers - 1;
        let bos_id = self.codec().vocabularies().bos_id;
        let longest = targets.iter().map(|target| target.len() + 1).max();
        let model = self.model(requests, longest.unwrap_or(0));
        let alignments = model.align(&sources, &targets, bos_id, last_layer);
        alignments.map_err(|error| error_of(&[], error))
    }

    /// Returns the outputs of a request: one line for each output in plain text, or one line for
    /// all of them in JSON. JSON takes the alignment of each output from `alignments`, until it ends.
    fn targets(
        &self,
        request: &Request,
        outputs: Vec<Hypothesis>,
        alignments: &mut impl Iterator<Item = Alignment>,
    ) -> String {
        let decode = |ids: &[u32]| self.codec().decode_target(ids);
        if self.is_json {
            let target = |output: Hypothesis| Target {
                target: decode(&output.tokens),
                score: output.score,
                log_probability: output.log_probability,
                tokens: self.token_names(&output.tokens),
                token_log_probabilities: output.token_log_probabilities,
                finished: output.end_id.is_some(),
                alignment: alignments.next(),
            };
            return to_line(&Targets {
                line: request.line,
                source: &request.text,
                hypotheses: outputs.into_iter().map(target).collect(),
            });
        }
        let line = |output: &Hypothesis| {
            let before = self.before(request.line, &format!("{:.4}", output.score));
            format!("{before}{}\n", one_line(&decode(&output.tokens)))
        };
        outputs.iter().map(line).collect()
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

    /// Returns the result of a blank line, `text`.
    pub fn blank(&self, line: u64, text: &str) -> String {
        let request = Request {
            line,
            text: text.into(),
            ..Request::default()
        };
        match (self.is_json, self.is_score()) {
            (true, false) => self.targets(&request, Vec::new(), &mut std::iter::empty()),
            (true, true) => to_line(&self.score_record(&request, None)),
            (false, _) => self.before(line, "") + "\n",
        }
    }

    /// Returns the result of a line that was rejected with `error`: the error in JSON, an empty
    /// output in plain text.
    pub fn rejected(&self, line: u64, error: &UsageError) -> String {
        if !self.is_json {
            return self.before(line, "") + "\n";
        }
        let error = Value::from(error.to_string());
        format!("{{\"line\":{line},\"error\":{error}}}\n")
    }

    /// Returns what a line of plain text begins with: the number of its line and the score, if a
    /// source can have several outputs.
    fn before(&self, line: u64, score: &str) -> String {
        match &self.work {
            Work::Generate(all) if all.config.n_best > 1 => format!("{line}\t{score}\t"),
            _ => String::new(),
        }
    }

    fn token_names(&self, ids: &[u32]) -> Vec<String> {
        let name = |&id: &u32| self.codec().target_token(id);
        ids.iter().map(name).collect()
    }
}

fn sources<'a>(requests: &[&'a Request]) -> Vec<&'a [u32]> {
    requests.iter().map(|request| &request.source[..]).collect()
}

/// Converts an error of the model into an error for users. If a setting is wrong, the new error
/// names it by its path. If an output is not finite, the new error names the line of its request,
/// unless `requests` is empty.
pub(super) fn error_of(requests: &[&Request], error: GenerateError) -> anyhow::Error {
    match error {
        GenerateError::Config(error) => UsageError::from(error).into(),
        GenerateError::Input(error) => error.into(),
        GenerateError::NotFinite { sequence, .. } if sequence < requests.len() => {
            let line = format!("line {}", requests[sequence].line);
            anyhow::Error::new(error).context(line)
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests;
