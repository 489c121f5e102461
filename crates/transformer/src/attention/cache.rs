//! The cache of the keys and values of decoded tokens.

use burn::tensor::{Tensor, s};

/// The keys and values of one attention layer for all tokens decoded so far.
///
/// Keys and values are in a buffer `[N, C, 2 G, K]` of `N` rows and `C` positions, with `G` heads
/// of keys before `G` heads of values. The buffer is written in place if nothing else holds it.
/// With a sufficient capacity, it is allocated once. A full buffer at least doubles `C`, as a `Vec`
/// does. The first append to a cache without capacity keeps the given tensor as the buffer:
/// training, which appends only once, needs no copy.
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    buffer: Option<Tensor<4>>,
    length: usize,
    /// Number of targets in the latest append.
    rows: usize,
    max_rows: usize,
    max_length: usize,
}

impl KeyValueCache {
    /// Returns an empty cache whose first append makes the buffer large enough for `max_rows`
    /// targets of `max_length` tokens.
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
            self.is_empty() || self.rows == targets,
            "there are {targets} targets, but the cache has {}",
            self.rows
        );
    }

    /// Returns the size `[N, C]` of the buffer after it has grown, if necessary, to hold `rows`
    /// targets of `length` tokens. The buffer never shrinks.
    pub(crate) fn capacity_for(&self, rows: usize, length: usize) -> [usize; 2] {
        let held = self.buffer.as_ref().map_or([0, 0], |buffer| {
            let [held_rows, held_length, ..] = buffer.dims();
            [held_rows, held_length]
        });
        let grown = |needed: usize, held: usize, asked: usize| {
            let least = needed.max(asked).max(held);
            if held > 0 && needed > held {
                least.max(2 * held)
            } else {
                least
            }
        };
        let max_length = if self.buffer.is_none() {
            self.max_length
        } else {
            0
        };
        [
            rows.max(held[0]).max(self.max_rows),
            grown(length, held[1], max_length),
        ]
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
    /// If `G` or `K` is not the same as in the cache.
    pub fn append(&mut self, new: Tensor<4>) -> Tensor<4> {
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
                            let empty = Tensor::zeros([n, c, h, k], (&held.device(), held.dtype()));
                            empty.slice_assign(s![..held_rows, ..held_length, .., ..], held)
                        }
                    }
                    None => Tensor::zeros([n, c, heads, d_head], (&new.device(), new.dtype())),
                };
                buffer.slice_assign(s![..rows, past..total, .., ..], new)
            }
        };
        self.buffer = Some(buffer.clone());
        buffer
    }
}
