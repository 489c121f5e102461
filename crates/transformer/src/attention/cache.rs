//! Keys and values of the tokens that have been decoded already.

use burn::tensor::{Tensor, s};

/// Keys and values of one attention layer, `[B, H, S, K]` each.
#[derive(Clone, Debug)]
pub struct KeyValue {
    /// `[B, H, S, K]`
    pub key: Tensor<4>,
    /// `[B, H, S, K]`
    pub value: Tensor<4>,
}

/// Keys and values that grow with the target, in a buffer that works as `Vec` does: it is
/// allocated once where the capacity is known, doubles where it is not, and is written in place.
///
/// The first append to a cache without capacity keeps the tensors as they are, so that training,
/// which decodes once with an empty cache, pays nothing for it.
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    buffer: Option<KeyValue>,
    length: usize,
    capacity: usize,
}

impl KeyValueCache {
    /// An empty cache; the buffer is allocated at the first append.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    /// Number of tokens held.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no token is held.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds the keys and values of new tokens and returns those of all tokens so far.
    ///
    /// # Shapes
    ///
    /// - new: `[B, H, T, K]`
    /// - output: `[B, H, len + T, K]`
    ///
    /// # Panics
    ///
    /// If `B`, `H` or `K` differ from those held.
    pub fn append(&mut self, new: KeyValue) -> KeyValue {
        let [batch, n_heads, added, d_head] = new.key.dims();
        let total = self.length + added;
        let held = self.buffer.take();
        if held.is_none() && self.capacity <= added {
            self.length = added;
            self.capacity = added;
            self.buffer = Some(new.clone());
            return new;
        }
        if let Some(held) = &held {
            let [b, h, _, k] = held.key.dims();
            assert_eq!(
                [batch, n_heads, d_head],
                [b, h, k],
                "new keys are [{batch}, {n_heads}, {added}, {d_head}], but the cache holds [{b}, {h}, {}, {k}]",
                self.length
            );
        }
        let grow = held.is_none() || total > self.capacity;
        if total > self.capacity {
            self.capacity = total.max(2 * self.capacity);
        }
        let (past, capacity) = (self.length, self.capacity);
        let write = |held: Option<Tensor<4>>, new: Tensor<4>| {
            let buffer = match held {
                Some(held) if !grow => held,
                held => {
                    let shape = [batch, n_heads, capacity, d_head];
                    let empty = Tensor::zeros(shape, (&new.device(), new.dtype()));
                    match held {
                        Some(held) => {
                            empty.slice_assign(s![.., .., ..past, ..], held.narrow(2, 0, past))
                        }
                        None => empty,
                    }
                }
            };
            buffer.slice_assign(s![.., .., past..total, ..], new)
        };
        let (held_key, held_value) = held.map(|held| (held.key, held.value)).unzip();
        let buffer = KeyValue {
            key: write(held_key, new.key),
            value: write(held_value, new.value),
        };
        let all = KeyValue {
            key: buffer.key.clone().narrow(2, 0, total),
            value: buffer.value.clone().narrow(2, 0, total),
        };
        self.length = total;
        self.buffer = Some(buffer);
        all
    }
}
