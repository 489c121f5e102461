//! The cache of the keys and values of decoded tokens.

use burn::module::ParamId;
use burn::tensor::{Tensor, s};

use super::index::{TokenRows, index_tensor};
use crate::position::PositionTerm;

/// Positions of a new buffer, unless the first tokens need more or the capacity is less.
const FIRST_LENGTH: usize = 32;

/// The keys and values of one attention layer for all tokens decoded so far.
///
/// Keys and values are in a buffer `[N, C, 2 G, K]` of `N` rows and `C` positions, with `G` heads
/// of keys before `G` heads of values. The buffer is written in place if nothing else holds it.
/// `C` is 32 at first, or the capacity if that is less, and a full buffer doubles it, since most
/// targets are far shorter than they may be. The first append to a cache without capacity keeps the
/// given tensor as the buffer: training, which appends only once, needs no copy.
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    buffer: Option<Tensor<4>>,
    length: usize,
    /// Number of targets in the latest append.
    rows: usize,
    max_rows: usize,
    max_length: usize,
    /// The weight of the layer that computed keys and values, and the kind of positions that the tokens
    /// have; `None` for a cache that is not in use yet.
    user: Option<(ParamId, &'static str)>,
}

impl KeyValueCache {
    /// Returns an empty cache for up to `max_rows` targets of up to `max_length` tokens. It grows if
    /// it gets more.
    pub fn with_capacity(max_rows: usize, max_length: usize) -> Self {
        Self {
            max_rows,
            max_length,
            ..Self::default()
        }
    }

    /// Returns the number of cached tokens, which is the same for all targets.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether no token is cached.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Checks that all of `targets` targets continue those of earlier tokens.
    ///
    /// # Panics
    ///
    /// If the cache has another number of targets.
    pub(crate) fn check_targets(&self, targets: usize) {
        assert!(
            self.rows == 0 || self.rows == targets,
            "there are {targets} targets, but the cache has {}",
            self.rows
        );
    }

    /// Checks that tokens are of the layer with the weight `layer`, and have the kind of positions, as those
    /// in the cache.
    pub(super) fn check_use(&mut self, layer: ParamId, position: Option<&PositionTerm>) {
        let found = match position {
            None => "no positions",
            Some(PositionTerm::Rotation(_)) => "a rotation",
            Some(PositionTerm::Bias(_)) => "a bias",
        };
        let (of_layer, held) = *self.user.get_or_insert((layer, found));
        assert!(
            of_layer == layer,
            "the cache has {} tokens of another layer: each layer needs a cache of its own",
            self.length
        );
        assert!(
            held == found,
            "the tokens are given {found}, but those in the cache {held}"
        );
    }

    /// Returns whether `added` more tokens need a larger buffer.
    pub(crate) fn is_full(&self, added: usize) -> bool {
        let dims = self.buffer.as_ref().map(Tensor::dims);
        dims.is_some_and(|[_, length, ..]| self.length + added > length)
    }

    /// Keeps only the keys and values of the tokens in `rows`: the tokens of target `i` are in row `i`
    /// from here on.
    pub(crate) fn gather(&mut self, rows: &TokenRows) {
        self.buffer = self.buffer.take().map(|buffer| rows.gather(buffer));
    }

    /// Returns the size `[N, C]` of the buffer after it has grown, if necessary, to hold `rows`
    /// targets of `length` tokens. The buffer never shrinks.
    fn capacity_for(&self, rows: usize, length: usize) -> [usize; 2] {
        let Some([held_rows, held_length, ..]) = self.buffer.as_ref().map(Tensor::dims) else {
            let length = length.max(FIRST_LENGTH.min(self.max_length));
            return [rows.max(self.max_rows), length];
        };
        let mut capacity = held_length;
        if length > held_length {
            // Twice the length, but no more than the maximum, unless this is too little already.
            let least = [2 * length, self.max_length].into_iter().min();
            capacity = least.filter(|&least| least >= length).unwrap_or(2 * length);
        }
        [rows.max(held_rows), capacity]
    }

    /// Lets target `i` continue target `parents[i]` of the latest append: a target may have several
    /// continuations, or none. The keys and values are copied.
    ///
    /// # Panics
    ///
    /// If a parent does not exist.
    pub fn branch(&mut self, parents: &[usize]) {
        let targets = self.rows;
        assert!(
            self.is_empty() || parents.iter().all(|&parent| parent < targets),
            "the parents are {parents:?}, but the cache has {targets} targets"
        );
        self.rows = parents.len();
        self.buffer = self.buffer.take().map(|buffer| {
            let rows = index_tensor(parents.iter().copied(), &buffer.device());
            buffer.select(0, rows)
        });
    }

    /// Appends the keys and values of the targets' next tokens, and returns the buffer.
    ///
    /// The tokens of target `i` are written to row `i`.
    ///
    /// # Shapes
    ///
    /// - new: `[R, T, 2 G, K]`, for `R` targets
    /// - output: `[N, C, 2 G, K]` with `N >= R` rows and `C >= len()` positions
    ///
    /// # Panics
    ///
    /// If `R`, `G` or `K` is not the same as in the cache.
    pub fn append(&mut self, new: Tensor<4>) -> Tensor<4> {
        self.check_targets(new.dims()[0]);
        self.append_rows(new)
    }

    /// Appends as [`append`](Self::append) does, but for targets that may have branched: their tokens
    /// are in rows that the caller knows.
    pub(crate) fn append_rows(&mut self, new: Tensor<4>) -> Tensor<4> {
        let [rows, added, heads, d_head] = new.dims();
        let total = self.length + added;
        let [n, c] = self.capacity_for(rows, total);
        let past = std::mem::replace(&mut self.length, total);
        self.rows = rows;
        let buffer = match self.buffer.take() {
            None if [n, c] == [rows, added] => new,
            held => {
                let buffer = match held {
                    Some(held) => {
                        let [held_rows, held_length, h, k] = held.dims();
                        assert_eq!(
                            [heads, d_head],
                            [h, k],
                            "new keys and values are [{rows}, {added}, {heads}, {d_head}], but the cache holds [{held_rows}, {past}, {h}, {k}]"
                        );
                        if [held_rows, held_length] == [n, c] {
                            held
                        } else {
                            let empty = fused::zeros([n, c, h, k], &held.device(), held.dtype());
                            empty.slice_assign(s![..held_rows, ..held_length, .., ..], held)
                        }
                    }
                    None => fused::zeros([n, c, heads, d_head], &new.device(), new.dtype()),
                };
                buffer.slice_assign(s![..rows, past..total, .., ..], new)
            }
        };
        self.buffer = Some(buffer.clone());
        buffer
    }
}
