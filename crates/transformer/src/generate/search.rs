//! The search: a loop that extends all targets by one token per step.

use std::collections::HashSet;

use super::autoregressive::Autoregressive;
use super::beam::{self, Continuation, Continuations};
use super::config::{GenerateConfig, Method};
use super::constraints::constrain;
use super::error::GenerateError;
use super::hypothesis::{Hypothesis, StepToken};
use super::row::Row;
use super::sample;
use super::source::Source;
use super::top::{Top, log_sum_exp};
use crate::error::ConfigError;
use crate::sequence::check_sequences;

/// A running generation: an iterator over its steps.
///
/// Each step yields the new tokens. You can stop the generation after any step.
///
/// If the model returns logits that are not finite, the step is an error, and the search ends and
/// drops all unfinished targets. A logit of minus infinity is valid for some tokens of a row, but
/// not for all of them.
///
/// ```
/// use transformer::generate::{Autoregressive, GenerateConfig, Search};
///
/// /// Predicts 3, 4, 5, ... and then 0, the end symbol.
/// struct Count;
/// impl Autoregressive for Count {
///     fn vocab_size(&self) -> usize {
///         8
///     }
///     fn step(&mut self, _parents: &[usize], tokens: &[u32]) -> Vec<f32> {
///         let next = tokens.iter().map(|token| (token + 1) % 8);
///         next.flat_map(|next| (0..8).map(move |id| if id == next { 5.0 } else { 0.0 })).collect()
///     }
/// }
///
/// let config = GenerateConfig::new(10).with_bos_id(Some(2)).with_eos_id(Some(0));
/// let mut search = Search::new(Count, vec![Vec::new()], config)?;
/// let first = search.next().unwrap()?;
/// assert_eq!(first[0].token, 3);
/// let hypotheses = search.run()?;
/// assert_eq!(hypotheses[0][0].tokens, [3, 4, 5, 6, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Search<M> {
    model: M,
    config: GenerateConfig,
    forbidden: HashSet<u32>,
    sources: Vec<Source>,
    /// Unfinished targets, ordered by source.
    rows: Vec<Row>,
    /// Number of tokens at the end of every row that the model has not read, begin symbol
    /// included. It exceeds 1 while all rows follow their prefixes.
    unread: usize,
    /// New tokens of the current step.
    new_tokens: Vec<StepToken>,
}

impl<M: Autoregressive> Search<M> {
    /// Begins a search with one source per prefix.
    ///
    /// The targets of source `i` must begin with the tokens of `prefixes[i]`, which is usually
    /// empty.
    ///
    /// # Errors
    ///
    /// A setting is not valid, there is no source, a prefix is longer than `max_length`, a token is
    /// not in the vocabulary, or there is neither a begin symbol nor a prefix.
    pub fn new(
        model: M,
        prefixes: Vec<Vec<u32>>,
        config: GenerateConfig,
    ) -> Result<Self, GenerateError> {
        config.validate()?;
        let vocab_size = model.vocab_size();
        for (field, id) in [("bos_id", config.bos_id), ("eos_id", config.eos_id)] {
            if let Some(id) = id.filter(|&id| id as usize >= vocab_size) {
                let expected = format!("less than the vocabulary size ({vocab_size})");
                return Err(ConfigError::new(field, id, expected).into());
            }
        }
        let forbidden: HashSet<u32> = config.forbidden.iter().copied().collect();
        for (field, ids) in [
            ("forbidden", &config.forbidden),
            ("forbidden_first", &config.forbidden_first),
        ] {
            if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab_size) {
                let expected = format!("tokens of the vocabulary, ids are 0..{vocab_size}");
                return Err(ConfigError::new(field, id, expected).into());
            }
        }
        let first: HashSet<u32> = config.forbidden_first.iter().copied().collect();
        if forbidden.union(&first).count() == vocab_size {
            let expected = "fewer tokens than the vocabulary has";
            return Err(ConfigError::new("forbidden", "every token", expected).into());
        }
        let longest = prefixes.iter().map(Vec::len).max().unwrap_or(0);
        if longest > config.max_length {
            let expected = format!("at least the length of the longest prefix ({longest} tokens)");
            return Err(ConfigError::new("max_length", config.max_length, expected).into());
        }
        check_sequences(&prefixes, vocab_size, usize::MAX)?;
        if config.bos_id.is_none() && prefixes.iter().any(Vec::is_empty) {
            let expected = "an id of the vocabulary, because a prefix is empty";
            return Err(ConfigError::new("bos_id", "none", expected).into());
        }
        let rows = (0..prefixes.len())
            .map(|source| Row {
                source,
                parent: source,
                tokens: Vec::new(),
                token_log_probabilities: Vec::new(),
                log_probability: 0.0,
                sample: None,
            })
            .collect();
        let sources = prefixes.into_iter().map(|prefix| Source {
            prefix,
            max_length: config.max_length,
            hypotheses: Vec::new(),
        });
        Ok(Self {
            model,
            forbidden,
            sources: sources.collect(),
            rows,
            unread: usize::from(config.bos_id.is_some()),
            new_tokens: Vec::new(),
            config,
        })
    }

    /// Limits the target length of each source. `lengths` has one limit in tokens per source.
    ///
    /// A limit above `max_length` has no effect. A limit is raised if it leaves no room for
    /// `min_length` tokens, or for the prefix and one more token.
    pub(super) fn with_max_lengths(mut self, lengths: impl IntoIterator<Item = usize>) -> Self {
        for (source, length) in self.sources.iter_mut().zip(lengths) {
            let least = self.config.min_length.max(source.prefix.len() + 1);
            source.max_length = length.max(least).min(self.config.max_length);
        }
        self
    }

    /// Runs the search to its end.
    ///
    /// Returns up to `n_best` hypotheses per source, best first. The hypotheses of a beam search
    /// all differ; samples may be equal.
    ///
    /// # Errors
    ///
    /// The model returns logits that are not finite.
    ///
    /// # Panics
    ///
    /// If the model does not return one logit per row and token of its vocabulary.
    pub fn run(mut self) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        for step in self.by_ref() {
            step?;
        }
        Ok(self.stop())
    }

    /// Stops the search and returns up to `n_best` hypotheses per source, unfinished ones included.
    pub fn stop(mut self) -> Vec<Vec<Hypothesis>> {
        for row in std::mem::take(&mut self.rows) {
            self.record_unfinished(row);
        }
        self.sources
            .into_iter()
            .map(|mut source| {
                source.hypotheses.truncate(self.config.n_best);
                source.hypotheses
            })
            .collect()
    }

    /// Records a row as an unfinished hypothesis.
    fn record_unfinished(&mut self, row: Row) {
        let source = row.source;
        let hypothesis = row.into_hypothesis(&self.config, false);
        self.sources[source].record(hypothesis, self.config.n_kept());
    }

    /// Advances the search for one source by one token. `begin` is the index of `rows[0]` among the
    /// rows of all sources.
    fn advance(&mut self, begin: usize, rows: &[Row], logits: &mut [f32]) {
        let vocab_size = self.model.vocab_size();
        let length = rows[0].tokens.len();
        let is_beam = matches!(self.config.method, Method::Beam { .. });
        let is_first = is_beam && self.config.normalize_first;
        if let Some(&token) = self.sources[rows[0].source].prefix.get(length) {
            // The source still has a single row, because the prefix allows only one token per step.
            return self.extend(begin, &rows[0], &forced(token));
        }
        for (row, logits) in rows.iter().zip(logits.chunks_mut(vocab_size)) {
            if is_first {
                let sum = log_sum_exp(logits);
                for logit in logits.iter_mut() {
                    *logit = (f64::from(*logit) - sum) as f32;
                }
            }
            constrain(logits, &row.tokens, &self.config, &self.forbidden);
            if length == self.sources[row.source].prefix.len() {
                for &token in &self.config.forbidden_first {
                    logits[token as usize] = f32::NEG_INFINITY;
                }
            }
            let is_last = length + 1 == self.sources[row.source].max_length;
            if let Some(eos) = self
                .config
                .eos_id
                .filter(|_| self.config.force_end && is_last)
            {
                logits.fill(f32::NEG_INFINITY);
                logits[eos as usize] = 0.0;
            }
        }
        match self.config.method {
            Method::Beam { width, .. } => self.advance_beam(begin, rows, logits, width),
            Method::Greedy => self.advance_each(begin, rows.to_vec(), logits, |_, logits| {
                let mut top = Top::new(1);
                top.offer(0, logits, 0.0);
                top.into_sorted().first().map(|best| best.token)
            }),
            Method::Sample {
                temperature,
                top_k,
                top_p,
                seed,
                first_source,
            } => {
                let rows = if rows[0].sample.is_some() {
                    rows.to_vec()
                } else {
                    let sample = |sample| Row {
                        sample: Some(sample),
                        ..rows[0].clone()
                    };
                    (0..self.config.n_best as u64).map(sample).collect()
                };
                self.advance_each(begin, rows, logits, |row, logits| {
                    let source = first_source.wrapping_add(row.source as u64);
                    let sample = row.sample.expect("the samples have branched");
                    let rng = &mut sample::generator(seed, source, sample, length as u64);
                    sample::draw(logits, temperature, top_k, top_p, rng)
                });
            }
        }
    }

    /// Extends each row of one source by the token that `choose` returns for it. If `choose`
    /// returns `None`, the row ends unfinished. Samples that have just branched share one row of
    /// logits.
    fn advance_each(
        &mut self,
        begin: usize,
        rows: Vec<Row>,
        logits: &[f32],
        choose: impl Fn(&Row, &[f32]) -> Option<u32>,
    ) {
        let logits: Vec<&[f32]> = logits.chunks(self.model.vocab_size()).collect();
        for (index, row) in rows.into_iter().enumerate() {
            let index = index.min(logits.len() - 1);
            let logits = logits[index];
            let Some(token) = choose(&row, logits) else {
                self.record_unfinished(row);
                continue;
            };
            let continuation = Continuation {
                row: index,
                token,
                log_probability: (f64::from(logits[token as usize]) - log_sum_exp(logits)) as f32,
            };
            if Some(token) == self.config.eos_id {
                self.end(begin, row, &continuation);
            } else {
                self.extend(begin, &row, &continuation);
            }
        }
    }

    /// Extends the rows of one source by a step of beam search.
    fn advance_beam(&mut self, begin: usize, rows: &[Row], logits: &[f32], width: usize) {
        let (config, vocab_size) = (&self.config, self.model.vocab_size());
        let norm = |logits: &[f32]| {
            if config.normalize_first {
                0.0
            } else {
                log_sum_exp(logits)
            }
        };
        let continuations = beam::choose(rows, logits, vocab_size, width, config.eos_id, norm);
        if continuations.is_empty() {
            for row in rows {
                self.record_unfinished(row.clone());
            }
            return;
        }
        let Continuations {
            ended,
            mut continuing,
        } = continuations;
        for end in &ended {
            self.end(begin, rows[end.row].clone(), end);
        }
        let source = &self.sources[rows[0].source];
        if source.is_decided(&self.config, rows, continuing.first(), width) {
            // At the maximum length, all of the best `width` continuations end and compete.
            let is_last = rows[0].tokens.len() + 1 == source.max_length;
            let n_competing = if is_last && width > 1 {
                width - ended.len()
            } else {
                0
            };
            continuing.truncate(n_competing);
        }
        for continuation in &continuing {
            self.extend(begin, &rows[continuation.row], continuation);
        }
    }

    /// Ends a row with the end symbol and records it as a finished hypothesis.
    fn end(&mut self, begin: usize, mut row: Row, end: &Continuation) {
        self.report(begin, row.source, end);
        row.add(end.log_probability);
        let source = &mut self.sources[row.source];
        let hypothesis = row.into_hypothesis(&self.config, true);
        source.record(hypothesis, self.config.n_kept());
    }

    /// Extends a row by the token of `continuation`.
    fn extend(&mut self, begin: usize, row: &Row, continuation: &Continuation) {
        self.report(begin, row.source, continuation);
        let mut child = row.clone();
        child.parent = begin + continuation.row;
        child.tokens.push(continuation.token);
        child.add(continuation.log_probability);
        self.keep(child);
    }

    /// Keeps a row for the next step, or records it as an unfinished hypothesis if it has the
    /// maximum length.
    fn keep(&mut self, row: Row) {
        if row.tokens.len() == self.sources[row.source].max_length {
            self.record_unfinished(row);
        } else {
            self.rows.push(row);
        }
    }

    /// Extends every row by the next token of its prefix, without the model: it reads all of these
    /// tokens in one pass, once a row has no more of them. Returns false, and changes nothing, if
    /// this is so already.
    fn follow_prefixes(&mut self) -> bool {
        let next = |row: &Row| self.sources[row.source].prefix.get(row.tokens.len());
        let Some(tokens) = self.rows.iter().map(next).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let tokens: Vec<u32> = tokens.into_iter().copied().collect();
        let rows = std::mem::take(&mut self.rows).into_iter();
        for (index, (mut row, token)) in rows.zip(tokens).enumerate() {
            let forced = forced(token);
            self.report(index, row.source, &forced);
            row.tokens.push(token);
            row.add(forced.log_probability);
            self.keep(row);
        }
        self.unread += 1;
        true
    }

    /// Adds a token to the new tokens of the current step.
    fn report(&mut self, begin: usize, source: usize, continuation: &Continuation) {
        self.new_tokens.push(StepToken {
            source,
            parent: begin + continuation.row,
            token: continuation.token,
            log_probability: continuation.log_probability,
        });
    }
}

impl<M: Autoregressive> Iterator for Search<M> {
    type Item = Result<Vec<StepToken>, GenerateError>;

    /// Advances all unfinished targets by one token. Returns `None` if no target is unfinished, and
    /// after an error.
    ///
    /// # Panics
    ///
    /// If the model does not return one logit per row and token of its vocabulary.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rows.is_empty() {
            return None;
        }
        if self.follow_prefixes() {
            return Some(Ok(std::mem::take(&mut self.new_tokens)));
        }
        let unfinished = std::mem::take(&mut self.rows);
        let parents: Vec<usize> = unfinished.iter().map(|row| row.parent).collect();
        let bos = self.config.bos_id.as_slice();
        let unread = std::mem::replace(&mut self.unread, 1);
        let tokens = unfinished.iter().map(|row| match row.tokens.len() {
            length if length >= unread => row.tokens[length - unread..].to_vec(),
            _ => [bos, &row.tokens].concat(),
        });
        let tokens: Vec<Vec<u32>> = tokens.collect();
        let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let mut logits = self.model.read(&parents, &tokens);
        let vocab_size = self.model.vocab_size();
        assert_eq!(
            logits.len(),
            unfinished.len() * vocab_size,
            "a step of {} rows returned {} logits, but the vocabulary has {vocab_size} tokens",
            unfinished.len(),
            logits.len()
        );
        let mut rows = unfinished.iter().zip(logits.chunks(vocab_size));
        if let Some((row, _)) = rows.find(|(_, logits)| !can_choose(logits)) {
            return Some(Err(GenerateError::NotFinite {
                sequence: row.source,
                position: row.tokens.len(),
            }));
        }
        let mut begin = 0;
        for rows in unfinished.chunk_by(|a, b| a.source == b.source) {
            let end = begin + rows.len();
            self.advance(
                begin,
                rows,
                &mut logits[begin * vocab_size..end * vocab_size],
            );
            begin = end;
        }
        Some(Ok(std::mem::take(&mut self.new_tokens)))
    }
}

/// Returns the continuation by a token of a forced prefix, which has probability 1.
fn forced(token: u32) -> Continuation {
    Continuation {
        row: 0,
        token,
        log_probability: 0.0,
    }
}

/// Returns whether a token can be chosen from a row's logits: no logit is NaN or plus infinity, and
/// at least one logit is finite.
fn can_choose(logits: &[f32]) -> bool {
    // Without an early exit, the compiler vectorises the loop.
    let (is_valid, has_finite) = logits.iter().fold((true, false), |(all, any), &x| {
        (all & (x < f32::INFINITY), any | (x > f32::NEG_INFINITY))
    });
    is_valid && has_finite
}
