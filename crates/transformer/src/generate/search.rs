//! The loop around the model: rows of targets, one token a step.

use std::collections::HashSet;

use super::Autoregressive;
use super::beam::{self, Continuation};
use super::config::{GenerateConfig, Method};
use super::constraints::constrain;
use super::hypothesis::{Hypothesis, StepToken};
use super::sample;
use super::top::{Top, log_sum_exp};
use crate::error::{ConfigError, InputError};

/// A generation under way: an iterator over its steps, which may be stopped at any of them.
///
/// ```
/// use transformer::generate::{Autoregressive, GenerateConfig, Search};
///
/// /// Says 3, 4, 5, ... and then 0, the end.
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
/// let config = GenerateConfig::new(2, 10).with_eos_id(Some(0));
/// let mut search = Search::new(Count, vec![Vec::new()], config)?;
/// let first = search.next().unwrap();
/// assert_eq!(first[0].token, 3);
/// let found = search.run();
/// assert_eq!(found[0][0].tokens, [3, 4, 5, 6, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Search<M> {
    model: M,
    config: GenerateConfig,
    forbidden: HashSet<u32>,
    sources: Vec<Source>,
    /// Targets under way, those of one source together.
    live: Vec<Row>,
    /// Of the step under way.
    new_tokens: Vec<StepToken>,
}

#[derive(Debug)]
struct Source {
    prefix: Vec<u32>,
    /// The most tokens of its targets.
    max_length: usize,
    /// The best so far, best first.
    found: Vec<Hypothesis>,
}

/// A target under way.
#[derive(Clone, Debug)]
pub(super) struct Row {
    source: usize,
    /// The row of the step before that it came from.
    parent: usize,
    tokens: Vec<u32>,
    token_log_probabilities: Vec<f32>,
    pub log_probability: f64,
    /// Which of its source's samples this is; none before they branch.
    sample: Option<u64>,
}

impl Row {
    fn add(&mut self, continuation: &Continuation) {
        let log_probability = continuation.log_probability;
        self.token_log_probabilities.push(log_probability);
        self.log_probability += f64::from(log_probability);
    }

    fn into_hypothesis(self, config: &GenerateConfig, is_finished: bool) -> Hypothesis {
        let length = self.token_log_probabilities.len();
        Hypothesis {
            score: self.log_probability / config.length_penalty().divisor(length),
            tokens: self.tokens,
            token_log_probabilities: self.token_log_probabilities,
            log_probability: self.log_probability,
            is_finished,
        }
    }
}

impl Source {
    fn record(&mut self, hypothesis: Hypothesis, n_best: usize) {
        let place = self.found.partition_point(|h| h.score >= hypothesis.score);
        self.found.insert(place, hypothesis);
        self.found.truncate(n_best);
    }
}

/// What goes wrong before a generation begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A setting that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Sources or prefixes that the model cannot take.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl<M: Autoregressive> Search<M> {
    /// Begins a search with one source for each prefix: the tokens that its targets have to begin
    /// with, usually none.
    ///
    /// # Errors
    ///
    /// A wrong setting, no source at all, a prefix longer than `max_length`, or a token outside
    /// the vocabulary.
    pub fn new(
        model: M,
        prefixes: Vec<Vec<u32>>,
        config: GenerateConfig,
    ) -> Result<Self, GenerateError> {
        config.validate()?;
        let vocab_size = model.vocab_size();
        for (field, id) in [("bos_id", Some(config.bos_id)), ("eos_id", config.eos_id)] {
            if let Some(id) = id.filter(|&id| id as usize >= vocab_size) {
                let expected = format!("less than the vocabulary's size ({vocab_size})");
                return Err(ConfigError::new(field, id, expected).into());
            }
        }
        let forbidden: HashSet<u32> = config.forbidden.iter().copied().collect();
        if let Some(id) = config
            .forbidden
            .iter()
            .find(|&&id| id as usize >= vocab_size)
        {
            let expected = format!("tokens of the vocabulary, ids are 0..{vocab_size}");
            return Err(ConfigError::new("forbidden", id, expected).into());
        }
        if forbidden.len() == vocab_size {
            let expected = "fewer tokens than there are";
            return Err(ConfigError::new("forbidden", "every token", expected).into());
        }
        crate::check_sequences(&prefixes, vocab_size, config.max_length)?;
        let live = (0..prefixes.len())
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
            found: Vec::new(),
        });
        Ok(Self {
            model,
            forbidden,
            sources: sources.collect(),
            live,
            new_tokens: Vec::new(),
            config,
        })
    }

    /// The same with a limit for each source, where it is below `max_length`; a target has room for
    /// `min_length`, its prefix and one token more in any case.
    pub(super) fn with_max_lengths(mut self, lengths: impl IntoIterator<Item = usize>) -> Self {
        for (source, length) in self.sources.iter_mut().zip(lengths) {
            let least = self.config.min_length.max(source.prefix.len() + 1);
            source.max_length = length.max(least).min(self.config.max_length);
        }
        self
    }

    /// Goes on to the end.
    ///
    /// The output has, for each source, up to `n_best` hypotheses, best first and no two the same
    /// (samples may be).
    pub fn run(mut self) -> Vec<Vec<Hypothesis>> {
        while self.next().is_some() {}
        self.stop()
    }

    /// Stops here: targets under way count as they are, unfinished.
    pub fn stop(mut self) -> Vec<Vec<Hypothesis>> {
        for row in std::mem::take(&mut self.live) {
            self.give_up(row);
        }
        self.sources
            .into_iter()
            .map(|source| source.found)
            .collect()
    }

    /// Makes an unfinished hypothesis of a row.
    fn give_up(&mut self, row: Row) {
        let source = row.source;
        let hypothesis = row.into_hypothesis(&self.config, false);
        self.sources[source].record(hypothesis, self.config.n_best);
    }

    /// Takes one step for the rows of one source, the first of which is row `begin` of all.
    fn advance(&mut self, begin: usize, rows: &[Row], logits: &mut [f32]) {
        let vocab_size = self.model.vocab_size();
        let length = rows[0].tokens.len();
        if let Some(&token) = self.sources[rows[0].source].prefix.get(length) {
            // Nothing has branched yet.
            let log_probability = (f64::from(logits[token as usize]) - log_sum_exp(logits)) as f32;
            let forced = Continuation {
                row: 0,
                token,
                log_probability,
            };
            return self.go_on(begin, &rows[0], &forced);
        }
        for (row, logits) in rows.iter().zip(logits.chunks_mut(vocab_size)) {
            constrain(logits, &row.tokens, &self.config, &self.forbidden);
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
                    let sample = row.sample.expect("they have branched");
                    let rng = &mut sample::generator(seed, source, sample, length as u64);
                    sample::draw(logits, temperature, top_k, top_p, rng)
                });
            }
        }
    }

    /// One new token for each row. Rows that have just branched share one row of logits.
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
                self.give_up(row);
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
                self.go_on(begin, &row, &continuation);
            }
        }
    }

    fn advance_beam(&mut self, begin: usize, rows: &[Row], logits: &[f32], width: usize) {
        let (config, vocab_size) = (&self.config, self.model.vocab_size());
        let continuations = beam::choose(rows, logits, vocab_size, width, config.eos_id);
        if continuations.is_empty() {
            for row in rows {
                self.give_up(row.clone());
            }
            return;
        }
        for end in &continuations.ended {
            self.end(begin, rows[end.row].clone(), end);
        }
        if self.is_decided(rows, continuations.going_on.first(), width) {
            return;
        }
        for continuation in &continuations.going_on {
            self.go_on(begin, &rows[continuation.row], continuation);
        }
    }

    /// Whether no target under way can still be among the best of its source, given the likeliest.
    fn is_decided(&self, rows: &[Row], likeliest: Option<&Continuation>, width: usize) -> bool {
        let Source {
            found, max_length, ..
        } = &self.sources[rows[0].source];
        let (Some(worst), Some(likeliest)) = (found.get(self.config.n_best - 1), likeliest) else {
            return false;
        };
        let row = &rows[likeliest.row];
        let log_probability = row.log_probability + f64::from(likeliest.log_probability);
        let penalty = self.config.length_penalty();
        width == 1
            || penalty.bound(log_probability, row.tokens.len() + 1, *max_length) <= worst.score
    }

    fn end(&mut self, begin: usize, mut row: Row, end: &Continuation) {
        self.report(begin, row.source, end);
        row.add(end);
        let source = &mut self.sources[row.source];
        let hypothesis = row.into_hypothesis(&self.config, true);
        source.record(hypothesis, self.config.n_best);
    }

    /// Keeps a row for the next step, unless it has all the tokens that it may have.
    fn go_on(&mut self, begin: usize, row: &Row, continuation: &Continuation) {
        self.report(begin, row.source, continuation);
        let mut child = row.clone();
        child.parent = begin + continuation.row;
        child.tokens.push(continuation.token);
        child.add(continuation);
        if child.tokens.len() == self.sources[child.source].max_length {
            self.give_up(child);
        } else {
            self.live.push(child);
        }
    }

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
    type Item = Vec<StepToken>;

    /// Takes a step for all sources that are not done.
    fn next(&mut self) -> Option<Vec<StepToken>> {
        if self.live.is_empty() {
            return None;
        }
        let live = std::mem::take(&mut self.live);
        let parents: Vec<usize> = live.iter().map(|row| row.parent).collect();
        let last = |row: &Row| *row.tokens.last().unwrap_or(&self.config.bos_id);
        let tokens: Vec<u32> = live.iter().map(last).collect();
        let mut logits = self.model.step(&parents, &tokens);
        let vocab_size = self.model.vocab_size();
        assert_eq!(
            logits.len(),
            live.len() * vocab_size,
            "a step of {} rows has {} logits, but the vocabulary has {vocab_size} tokens",
            live.len(),
            logits.len()
        );
        let mut begin = 0;
        for rows in live.chunk_by(|a, b| a.source == b.source) {
            let end = begin + rows.len();
            self.advance(
                begin,
                rows,
                &mut logits[begin * vocab_size..end * vocab_size],
            );
            begin = end;
        }
        Some(std::mem::take(&mut self.new_tokens))
    }
}
