//! The best continuations of one source's targets (paper, section 6.1).

use super::search::Row;
use super::top::{Top, log_sum_exp};

/// A continuation: row `row` of the source, then `token`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continuation {
    pub row: usize,
    pub token: u32,
    pub log_probability: f32,
}

/// The continuations that end and those that go on, each best first.
#[derive(Debug, Default)]
pub(super) struct Continuations {
    pub ended: Vec<Continuation>,
    pub going_on: Vec<Continuation>,
}

impl Continuations {
    pub fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.going_on.is_empty()
    }
}

/// Chooses among all continuations of one source's rows, whose logits are constrained already.
///
/// An end symbol counts if it is among the best `width`; the places that it leaves are filled with
/// the next best, so that `width` rows go on.
pub(super) fn choose(
    rows: &[Row],
    logits: &[f32],
    vocab_size: usize,
    width: usize,
    eos_id: Option<u32>,
) -> Continuations {
    // Every row has one end symbol, so that `width` others are among so many.
    let mut top = Top::new(width + rows.len());
    let mut normalizers = Vec::with_capacity(rows.len());
    for (index, (row, logits)) in rows.iter().zip(logits.chunks(vocab_size)).enumerate() {
        let normalizer = log_sum_exp(logits);
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
        if Some(candidate.token) == eos_id {
            if rank < width {
                continuations.ended.push(continuation);
            }
        } else if continuations.going_on.len() < width {
            continuations.going_on.push(continuation);
        }
    }
    continuations
}
