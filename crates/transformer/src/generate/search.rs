//! The search: a loop that extends all targets by one token per step.

use std::collections::HashSet;

use super::autoregressive::Autoregressive;
use super::beam::{Continuation, Continuations};
use super::choice::{Choice, Chooser};
use super::config::GenerateConfig;
use super::error::GenerateError;
use super::hypothesis::{Hypothesis, StepToken};
use super::row::Row;
use super::source::Source;
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
            ("stop_ids", &config.stop_ids),
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
            let expected = "an id of the vocabulary, because a target has no prefix or prompt";
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
        let sources = prefixes.into_iter().map(|prefix| {
            let most = config.max_new_tokens.unwrap_or(usize::MAX);
            let least = prefix.len().saturating_add(config.min_new_tokens);
            Source {
                min_length: config.min_length.max(least),
                max_length: prefix.len().saturating_add(most).min(config.max_length),
                uncounted: if config.count_prefix { 0 } else { prefix.len() },
                prefix,
                hypotheses: Vec::new(),
            }
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
    /// A limit above `max_length` or `max_new_tokens` has no effect. A limit is raised if it leaves no room for
    /// `min_length` tokens, or for the prefix and one more token.
    pub(super) fn with_max_lengths(mut self, lengths: impl IntoIterator<Item = usize>) -> Self {
        for (source, length) in self.sources.iter_mut().zip(lengths) {
            let least = source.min_length.max(source.prefix.len() + 1);
            source.max_length = length.max(least).min(source.max_length);
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
        for mut row in std::mem::take(&mut self.rows) {
            // Tokens that were not reached are given all the same.
            let prefix = &self.sources[row.source].prefix;
            for &token in prefix.get(row.tokens.len()..).unwrap_or_default() {
                row.tokens.push(token);
                row.add(0.0);
            }
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
        let source = &mut self.sources[row.source];
        let hypothesis = row.into_hypothesis(&self.config, source.uncounted, None);
        source.record(hypothesis, self.config.n_kept());
    }

    /// Advances the search for one source by one token. `begin` is the index of `rows[0]` among the
    /// rows of all sources.
    fn advance(&mut self, begin: usize, rows: &[Row], choice: Choice) {
        match choice {
            Choice::Forced(token) => self.extend(begin, &rows[0], &forced(token)),
            Choice::Beam(continuations) => self.advance_beam(begin, rows, continuations),
            Choice::Each(each) => {
                for (row, continuation) in each {
                    match continuation {
                        None => self.record_unfinished(row),
                        Some(next) if self.config.is_end(next.token) => {
                            self.end(begin, row, &next);
                        }
                        Some(next) => self.extend(begin, &row, &next),
                    }
                }
            }
        }
    }

    /// Extends the rows of one source by a step of beam search. Rows without any continuation end
    /// unfinished.
    fn advance_beam(&mut self, begin: usize, rows: &[Row], continuations: Continuations) {
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
        self.sources[rows[0].source].prune(&self.config, rows, &mut continuing, ended.len());
        for continuation in &continuing {
            self.extend(begin, &rows[continuation.row], continuation);
        }
    }

    /// Ends a row with the end symbol and records it as a finished hypothesis.
    fn end(&mut self, begin: usize, mut row: Row, end: &Continuation) {
        self.report(begin, row.source, end);
        row.add(end.log_probability);
        let source = &mut self.sources[row.source];
        let hypothesis = row.into_hypothesis(&self.config, source.uncounted, Some(end.token));
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
        let mut rest = &mut logits[..];
        let rows = unfinished
            .chunk_by(|a, b| a.source == b.source)
            .map(|rows| {
                let (logits, after) =
                    std::mem::take(&mut rest).split_at_mut(rows.len() * vocab_size);
                rest = after;
                (&self.sources[rows[0].source], rows, logits)
            });
        let (rows, n_logits) = (rows.collect(), unfinished.len() * vocab_size);
        let chooser = Chooser {
            config: &self.config,
            forbidden: &self.forbidden,
            vocab_size,
        };
        let choices = fused::map_in_parallel(rows, n_logits, |(source, rows, logits)| {
            Ok((rows, chooser.choose(source, rows, logits)?))
        });
        let choices: Vec<_> = match choices.into_iter().collect() {
            Ok(choices) => choices,
            Err(error) => return Some(Err(error)),
        };
        let mut begin = 0;
        for (rows, choice) in choices {
            self.advance(begin, rows, choice);
            begin += rows.len();
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
