//! One step of beam search for one source (paper, section 6.1).

use super::config::GenerateConfig;
use super::row::Row;
use super::top::Top;

/// A row (a target being decoded) and a token that may extend it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continuation {
    /// Index of the row within the rows of its source, from 0.
    pub row: usize,
    pub token: u32,
    /// Log-probability of `token`, given the earlier tokens of the row.
    pub log_probability: f32,
}

/// The best continuations of one source's rows. Both lists are sorted from best to worst.
#[derive(Debug, Default)]
pub(super) struct Continuations {
    /// Continuations whose token is an end symbol.
    pub ended: Vec<Continuation>,
    /// Continuations whose token is not an end symbol.
    pub continuing: Vec<Continuation>,
}

impl Continuations {
    pub fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.continuing.is_empty()
    }
}

/// Chooses the best continuations of one source's rows by the settings of `config`, whose beam has the
/// width `width`.
///
/// `logits` holds `vocab_size` logits per row, to which the constraints are already applied.
/// `normalizer` returns what to subtract from a row's logits: their log-sum-exp, or 0 if they are
/// already log-probabilities. In the result, `ended` has the end symbols that are among the best
/// `width` continuations. However many rows end, `continuing` has the best `width` continuations
/// with other tokens, or fewer if there are not as many.
pub(super) fn choose(
    rows: &[Row],
    logits: &[f32],
    vocab_size: usize,
    width: usize,
    config: &GenerateConfig,
    normalizer: impl Fn(&[f32]) -> f64,
) -> Continuations {
    // However many candidates are end symbols, `width` others remain for `continuing`.
    let mut top = Top::new(width + rows.len() * config.end_ids().count());
    let mut normalizers = Vec::with_capacity(rows.len());
    for (index, (row, logits)) in rows.iter().zip(logits.chunks(vocab_size)).enumerate() {
        let normalizer = normalizer(logits);
        top.offer(index, logits, row.log_probability - normalizer);
        normalizers.push(normalizer);
    }
    let mut continuations = Continuations::default();
    for (rank, candidate) in top.into_sorted().into_iter().enumerate() {
        let logit = logits[candidate.row * vocab_size + candidate.token as usize];
        let continuation = Continuation {
            row: candidate.row,
            token: candidate.token,
            log_probability: (f64::from(logit) - normalizers[candidate.row]) as f32,
        };
        if config.is_end(candidate.token) {
            if rank < width {
                continuations.ended.push(continuation);
            }
        } else if continuations.continuing.len() < width {
            continuations.continuing.push(continuation);
        }
    }
    continuations
}
