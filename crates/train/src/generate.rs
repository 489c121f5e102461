//! Answers to lines of text, by a model that was trained.

mod records;

use std::ops::ControlFlow;

use anyhow::Result;
use transformer::generate::{GenerateConfig, GenerateError, Hypothesis, Method, TargetScore};

use crate::checkpoint::Trained;
use crate::error::UsageError;
use crate::input::Line;
use records::{Refused, Score, Target, Targets, to_line};

/// What is done with each line.
#[derive(Clone, Debug)]
pub enum Work {
    /// Targets are made.
    Generate(Generation),
    /// Given targets are scored.
    Score,
}

/// How targets are made.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Its `first_source` does not matter, since lines are numbered.
    pub config: GenerateConfig,
    /// What every target begins with.
    pub prefix: Vec<u32>,
    /// Whether each token's cross-attention is told, too.
    pub alignments: bool,
}

/// The weights of a target's tokens, a row each.
type Alignment = Vec<Vec<f32>>;

/// A line, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The line's number, from 1.
    pub line: u64,
    /// The source as it was given, where it is a text.
    pub text: Option<String>,
    /// What the encoder reads.
    pub source: Vec<u32>,
    /// What is scored; empty where targets are made.
    pub target: Vec<u32>,
}

/// Answers requests.
pub struct Answerer<'a> {
    run: &'a Trained,
    work: Work,
    json: bool,
}

impl<'a> Answerer<'a> {
    /// Answers by a run's model, in words or in JSON.
    pub fn new(run: &'a Trained, work: Work, json: bool) -> Self {
        Self { run, work, json }
    }

    /// Understands a line; a blank one asks for nothing.
    ///
    /// # Errors
    ///
    /// Words that are no symbols, or more of them than the model can take.
    pub fn request(&self, line: &Line) -> Result<Option<Request>, UsageError> {
        if line.is_blank() {
            return Ok(None);
        }
        let max_len = self.run.config.model.max_len;
        let (source, target) = match self.work {
            Work::Generate(_) => (&line.text[..], ""),
            Work::Score => match line.text.split_once('\t') {
                Some((source, target)) if !target.contains('\t') => (source, target),
                _ => return Err(line.wrong("must be SOURCE<TAB>TARGET, with one tab")),
            },
        };
        let request = Request {
            line: line.number,
            text: self.run.task.is_text().then(|| source.into()),
            source: self.parse(
                line,
                "source",
                source,
                self.run.task.max_source().min(max_len),
            )?,
            // The decoder reads the begin symbol before the target, and predicts the end after it.
            target: self.parse(line, "target", target, max_len - 1)?,
        };
        if request.source.is_empty() {
            return Err(line.wrong("has no source before its tab"));
        }
        Ok(Some(request))
    }

    fn parse(
        &self,
        line: &Line,
        what: &str,
        text: &str,
        most: usize,
    ) -> Result<Vec<u32>, UsageError> {
        let task = &self.run.task;
        if task.max_bytes().is_some_and(|bytes| text.len() > bytes) {
            return Err(line.wrong(format!(
                "its {what} has {} bytes, must have at most {most} tokens, which this model can take",
                text.len()
            )));
        }
        let ids = match what {
            "source" => task.parse_source(text),
            _ => task.parse(text),
        };
        let ids = ids.map_err(|error| line.wrong(error.to_string()))?;
        if ids.len() > most {
            let unit = if task.is_text() { "tokens" } else { "symbols" };
            return Err(line.wrong(format!(
                "its {what} has {} {unit}, must have at most {most}, which this model can take",
                ids.len()
            )));
        }
        Ok(ids)
    }

    /// One text for each request: its answer, with the line break at its end.
    ///
    /// # Errors
    ///
    /// Settings that the model cannot take.
    pub fn answer(&self, requests: &[Request]) -> Result<Vec<String>> {
        let mut answers = Vec::with_capacity(requests.len());
        for requests in requests.chunk_by(|a, b| self.go_together(a, b)) {
            match &self.work {
                Work::Generate(generation) => {
                    let found = self.generate(requests, generation)?;
                    let alignments = match generation.alignments {
                        true => self.align(requests, &found)?,
                        false => vec![None; requests.len()],
                    };
                    let found = found.into_iter().zip(alignments);
                    for (request, (found, alignments)) in requests.iter().zip(found) {
                        answers.push(self.targets(request, found, alignments)?);
                    }
                }
                Work::Score => {
                    for (request, score) in requests.iter().zip(self.score(requests)?) {
                        answers.push(self.score_line(request, &score)?);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Prints the tokens of a target as they come, and then a line break.
    ///
    /// # Errors
    ///
    /// Settings that the model cannot take, or those of `print`.
    pub fn stream(
        &self,
        request: &Request,
        print: impl Fn(&str) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let Work::Generate(Generation { config, prefix, .. }) = &self.work else {
            let answer = self.answer(std::slice::from_ref(request))?;
            return print(&answer.concat());
        };
        let config = numbered(config, request.line);
        let steps = self
            .run
            .model
            .stream_completion(&[&request.source], &[prefix], &config)
            .map_err(refuse)?;
        let tokens = steps.flatten().map(|step| step.token);
        let (mut target, mut printed) = (Vec::new(), String::new());
        for token in tokens.filter(|&token| Some(token) != config.eos_id) {
            target.push(token);
            let text = self.run.task.show(&target);
            // The bytes of a character may stand in several tokens.
            let is_whole = !text.ends_with(char::REPLACEMENT_CHARACTER);
            if let Some(new) = text.strip_prefix(&printed).filter(|_| is_whole) {
                if print(new)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                printed = text;
            }
        }
        let text = self.run.task.show(&target);
        let rest = text.strip_prefix(&printed).unwrap_or_default();
        print(&format!("{rest}\n"))
    }

    /// What stands for a blank line.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn blank(&self, line: u64) -> Result<String> {
        let request = Request {
            line,
            text: None,
            source: Vec::new(),
            target: Vec::new(),
        };
        match self.work {
            Work::Generate(_) if self.json => self.targets(&request, Vec::new(), None),
            Work::Score if self.json => to_line(&self.score_json(&request, None)),
            _ => Ok(self.nothing(line)),
        }
    }

    /// What stands for a wrong line.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn refused(&self, line: u64, error: &UsageError) -> Result<String> {
        if self.json {
            let error = error.to_string();
            return to_line(&Refused { line, error });
        }
        Ok(self.nothing(line))
    }

    fn nothing(&self, line: u64) -> String {
        if self.has_many() {
            format!("{line}\t\t\n")
        } else {
            "\n".into()
        }
    }

    fn has_many(&self) -> bool {
        matches!(&self.work, Work::Generate(generation) if generation.config.n_best > 1)
    }

    /// Samples are functions of the line's number, which a search counts up itself.
    fn go_together(&self, a: &Request, b: &Request) -> bool {
        let is_sampled = match &self.work {
            Work::Generate(generation) => {
                matches!(generation.config.method, Method::Sample { .. })
            }
            Work::Score => false,
        };
        !is_sampled || a.line + 1 == b.line
    }

    fn generate(
        &self,
        requests: &[Request],
        generation: &Generation,
    ) -> Result<Vec<Vec<Hypothesis>>> {
        let sources = sources(requests);
        let prefixes = vec![&generation.prefix[..]; sources.len()];
        let config = numbered(&generation.config, requests[0].line);
        let found = self.run.model.complete(&sources, &prefixes, &config);
        found.map_err(refuse)
    }

    fn score(&self, requests: &[Request]) -> Result<Vec<TargetScore>> {
        let task = &self.run.task;
        let targets: Vec<&[u32]> = requests.iter().map(|request| &request.target[..]).collect();
        let model = &self.run.model;
        let scores = model.score(&sources(requests), &targets, task.bos_id(), task.eos_id());
        scores.map_err(refuse)
    }

    /// For each request the alignment of each of its targets.
    fn align(
        &self,
        requests: &[Request],
        found: &[Vec<Hypothesis>],
    ) -> Result<Vec<Option<Vec<Alignment>>>> {
        let mut sources = Vec::new();
        let mut targets = Vec::new();
        for (request, found) in requests.iter().zip(found) {
            for hypothesis in found {
                sources.push(&request.source[..]);
                targets.push(&hypothesis.tokens[..]);
            }
        }
        let last_layer = self.run.config.model.n_decoder_layers - 1;
        let bos_id = self.run.task.bos_id();
        let rows = self.run.model.align(&sources, &targets, bos_id, last_layer);
        let mut rows = rows.map_err(refuse)?.into_iter();
        let mut alignments = Vec::with_capacity(requests.len());
        for found in found {
            alignments.push(Some(rows.by_ref().take(found.len()).collect()));
        }
        Ok(alignments)
    }

    fn targets(
        &self,
        request: &Request,
        found: Vec<Hypothesis>,
        alignments: Option<Vec<Alignment>>,
    ) -> Result<String> {
        let show = |ids: &[u32]| self.run.task.show(ids);
        if self.json {
            let alignments = alignments.into_iter().flatten().map(Some);
            let alignments = alignments.chain(std::iter::repeat(None));
            let target = |(found, alignment): (Hypothesis, _)| Target {
                target: show(&found.tokens),
                score: found.score,
                log_probability: found.log_probability,
                tokens: self.words(&found.tokens),
                token_log_probabilities: found.token_log_probabilities,
                finished: found.is_finished,
                alignment,
            };
            return to_line(&Targets {
                line: request.line,
                source: self.source(request),
                hypotheses: found.into_iter().zip(alignments).map(target).collect(),
            });
        }
        let line = |found: &Hypothesis| {
            let target = show(&found.tokens);
            if self.has_many() {
                format!("{}\t{:.4}\t{target}\n", request.line, found.score)
            } else {
                format!("{target}\n")
            }
        };
        Ok(found.iter().map(line).collect())
    }

    fn score_line(&self, request: &Request, score: &TargetScore) -> Result<String> {
        if self.json {
            return to_line(&self.score_json(request, Some(score)));
        }
        Ok(format!("{:.4}\n", score.log_probability))
    }

    fn score_json(&self, request: &Request, score: Option<&TargetScore>) -> Score {
        Score {
            line: request.line,
            source: self.source(request),
            target: self.run.task.show(&request.target),
            log_probability: score.map(|score| score.log_probability),
            tokens: self.words(&request.target),
            token_log_probabilities: score
                .map(|score| score.token_log_probabilities.clone())
                .unwrap_or_default(),
        }
    }

    fn source(&self, request: &Request) -> String {
        let text = request.text.clone();
        text.unwrap_or_else(|| self.run.task.show_source(&request.source))
    }

    fn words(&self, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|&id| self.run.task.token(id)).collect()
    }
}

fn sources(requests: &[Request]) -> Vec<&[u32]> {
    requests.iter().map(|request| &request.source[..]).collect()
}

/// The same generation, its first source being that of a line.
fn numbered(config: &GenerateConfig, line: u64) -> GenerateConfig {
    let mut config = config.clone();
    if let Method::Sample { first_source, .. } = &mut config.method {
        *first_source = line - 1;
    }
    config
}

/// Settings are the user's to mend; the input was checked.
fn refuse(error: GenerateError) -> anyhow::Error {
    match error {
        GenerateError::Config(error) => UsageError::from(error).into(),
        GenerateError::Input(error) => error.into(),
    }
}
