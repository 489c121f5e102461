//! The choice of the next tokens of one source's rows.

use std::collections::HashSet;

use super::beam::{self, Continuation, Continuations};
use super::config::{GenerateConfig, Method};
use super::constraints::constrain;
use super::error::GenerateError;
use super::row::Row;
use super::sample;
use super::source::Source;
use super::top::{Top, log_sum_exp};

/// The next tokens of one source's rows.
pub(super) enum Choice {
    /// The next token of the prefix. The source still has a single row.
    Forced(u32),
    /// The best continuations of all rows together.
    Beam(Continuations),
    /// Each row, and its continuation if there is any. Samples branch here: they may have the same
    /// row before.
    Each(Vec<(Row, Option<Continuation>)>),
}

/// Chooses by a configuration. `forbidden` holds the tokens that it forbids.
#[derive(Clone, Copy)]
pub(super) struct Chooser<'a> {
    pub config: &'a GenerateConfig,
    pub forbidden: &'a HashSet<u32>,
    pub vocab_size: usize,
}

impl Chooser<'_> {
    /// Returns the choice for the rows of `source`, given `vocab_size` logits for each, which it
    /// changes.
    ///
    /// # Errors
    ///
    /// A row has a logit of NaN or plus infinity, or none that is finite.
    pub fn choose(
        &self,
        source: &Source,
        rows: &[Row],
        logits: &mut [f32],
    ) -> Result<Choice, GenerateError> {
        let length = rows[0].tokens.len();
        if !logits.chunks(self.vocab_size).all(can_choose) {
            return Err(GenerateError::NotFinite {
                sequence: rows[0].source,
                position: length,
            });
        }
        if let Some(&token) = source.prefix.get(length) {
            return Ok(Choice::Forced(token));
        }
        for (row, logits) in rows.iter().zip(logits.chunks_mut(self.vocab_size)) {
            self.constrain(source, row, logits);
        }
        let config = self.config;
        Ok(match config.method {
            Method::Beam { width, .. } => {
                let norm = |logits: &[f32]| {
                    if config.normalize_first {
                        0.0
                    } else {
                        log_sum_exp(logits)
                    }
                };
                Choice::Beam(beam::choose(
                    rows,
                    logits,
                    self.vocab_size,
                    width,
                    config,
                    norm,
                ))
            }
            Method::Greedy => self.choose_each(rows.to_vec(), logits, |_, logits| {
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
            } => self.choose_each(self.samples(rows), logits, |row, logits| {
                let source = first_source.wrapping_add(row.source as u64);
                let sample = row.sample.expect("the samples have branched");
                let position = row.tokens.len() as u64;
                let rng = &mut sample::generator(seed, source, sample, position);
                sample::draw(logits, temperature, top_k, top_p, rng)
            }),
        })
    }

    /// Applies the constraints to the logits of one row.
    fn constrain(&self, source: &Source, row: &Row, logits: &mut [f32]) {
        let (config, length) = (self.config, row.tokens.len());
        if config.normalize_first && matches!(config.method, Method::Beam { .. }) {
            let sum = log_sum_exp(logits);
            for logit in logits.iter_mut() {
                *logit = (f64::from(*logit) - sum) as f32;
            }
        }
        constrain(
            logits,
            &row.tokens,
            config,
            self.forbidden,
            source.min_length,
        );
        if length == source.prefix.len() {
            for &token in &config.forbidden_first {
                logits[token as usize] = f32::NEG_INFINITY;
            }
        }
        let is_last = length + 1 == source.max_length;
        if let Some(eos) = config.eos_id.filter(|_| config.force_end && is_last) {
            logits.fill(f32::NEG_INFINITY);
            logits[eos as usize] = 0.0;
        }
    }

    /// Returns the rows, or `n_best` samples of the only row if they have not branched yet.
    fn samples(&self, rows: &[Row]) -> Vec<Row> {
        if rows[0].sample.is_some() {
            return rows.to_vec();
        }
        let sample = |sample| Row {
            sample: Some(sample),
            ..rows[0].clone()
        };
        (0..self.config.n_best as u64).map(sample).collect()
    }

    /// Chooses the token of each row by `choose`. Samples that have just branched share one row of
    /// logits.
    fn choose_each(
        &self,
        rows: Vec<Row>,
        logits: &[f32],
        choose: impl Fn(&Row, &[f32]) -> Option<u32>,
    ) -> Choice {
        let logits: Vec<&[f32]> = logits.chunks(self.vocab_size).collect();
        let each = rows.into_iter().enumerate().map(|(index, row)| {
            let index = index.min(logits.len() - 1);
            let logits = logits[index];
            let continuation = choose(&row, logits).map(|token| Continuation {
                row: index,
                token,
                log_probability: (f64::from(logits[token as usize]) - log_sum_exp(logits)) as f32,
            });
            (row, continuation)
        });
        Choice::Each(each.collect())
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
