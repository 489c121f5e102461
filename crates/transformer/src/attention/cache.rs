//! Keys and values of the tokens that have been decoded already.

use std::cell::OnceCell;

use burn::tensor::{Device, Int, Tensor, TensorData, s};

use crate::mask::AttentionMask;

/// Keys and values of one attention layer, `[B, H, S, K]` each.
#[derive(Clone, Debug)]
pub struct KeyValue {
    /// `[B, H, S, K]`
    pub key: Tensor<4>,
    /// `[B, H, S, K]`
    pub value: Tensor<4>,
}

impl KeyValue {
    /// Views of a packed projection `[B, S, 2 H, K]`.
    pub(crate) fn from_packed(packed: Tensor<4>) -> Self {
        let n_heads = packed.dims()[2] / 2;
        let heads = packed.swap_dims(1, 2);
        Self {
            key: heads.clone().narrow(1, 0, n_heads),
            value: heads.narrow(1, n_heads, n_heads),
        }
    }
}

/// Which rows of a cache, and of a memory, belong to the targets of one step. Made once a step for
/// all layers.
///
/// A target that branches, as in a beam, is not copied: its descendants find their past keys and
/// values in the rows where they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Where each target's tokens are; none where target `i` is in row `i` from its beginning.
    pub past: Option<Past>,
    /// How the targets lie over the sources; none where target `i` has source `i`.
    pub beams: Option<Beams>,
}

/// The row of the cache that holds each token of each target, `[R T]`.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub rows: Vec<u32>,
    length: usize,
    /// The same as indices into `[N C]`, made when a layer asks for them.
    indices: OnceCell<Tensor<1, Int>>,
}

impl Past {
    pub fn new(rows: Vec<u32>, length: usize) -> Self {
        Self {
            rows,
            length,
            indices: OnceCell::new(),
        }
    }

    /// The keys and values of each target, together.
    fn gather(&self, held: Tensor<4>) -> Tensor<4> {
        let [n, capacity, heads, d_head] = held.dims();
        let indices = self.indices.get_or_init(|| {
            let position = (0..self.length).cycle();
            let rows = self.rows.iter().zip(position);
            let places = rows.map(|(&row, position)| row as usize * capacity + position);
            indices(places, &held.device())
        });
        held.reshape([n * capacity, heads * d_head])
            .select(0, indices.clone())
            .reshape([self.rows.len() / self.length, self.length, heads, d_head])
    }
}

/// The targets of each source, as queries of one attention: keys and values of the source are
/// shared, not copied.
#[derive(Clone, Debug)]
pub(crate) struct Beams {
    /// The source of each target, `[R]`.
    pub source: Vec<u32>,
    n_sources: usize,
    places: OnceCell<BeamPlaces>,
}

/// A place for each target in a tensor `[B, width]`.
#[derive(Clone, Debug)]
pub(crate) struct BeamPlaces {
    /// The most targets that a source has.
    pub width: usize,
    /// Which target stands in each place, and which place each target has; none where every
    /// source has `width` targets, one source's after the other's.
    pub order: Option<(Tensor<1, Int>, Tensor<1, Int>)>,
}

impl Beams {
    pub fn new(source: Vec<u32>, n_sources: usize) -> Self {
        Self {
            source,
            n_sources,
            places: OnceCell::new(),
        }
    }

    /// The source of each target, as indices.
    pub fn sources(&self, device: &Device) -> Tensor<1, Int> {
        indices(self.source.iter().map(|&source| source as usize), device)
    }

    pub fn places(&self, device: &Device) -> &BeamPlaces {
        self.places.get_or_init(|| {
            let n_sources = self.n_sources;
            let mut targets = vec![Vec::new(); n_sources];
            for (target, &source) in self.source.iter().enumerate() {
                targets[source as usize].push(target);
            }
            let width = targets.iter().map(Vec::len).max().unwrap_or(0);
            let full = (0..n_sources as u32).flat_map(|source| std::iter::repeat_n(source, width));
            let is_full = full.eq(self.source.iter().copied());
            let order = (!is_full).then(|| {
                let mut place_of = vec![0; self.source.len()];
                let mut target_in = vec![0; n_sources * width];
                for (source, targets) in targets.iter().enumerate() {
                    for (beam, &target) in targets.iter().enumerate() {
                        place_of[target] = source * width + beam;
                        target_in[source * width + beam] = target;
                    }
                }
                (indices(target_in, device), indices(place_of, device))
            });
            BeamPlaces { width, order }
        })
    }
}

/// What one step of `targets` targets with `length` tokens each attends to.
pub(crate) struct Keys {
    /// `[N, C, 2 H, K]`
    pub packed: Tensor<4>,
    pub length: usize,
}

impl Keys {
    /// Attention of one query a target, where the backend finds keys and values by itself.
    pub fn step(
        &self,
        query: &Tensor<4>,
        own_rows: Option<&Past>,
        mask: Option<&AttentionMask>,
        sources: Option<&Beams>,
    ) -> Option<Tensor<3>> {
        let identity: Vec<u32>;
        let places = match (own_rows, sources) {
            (Some(past), _) => fused::Places::Tokens(&past.rows),
            (None, Some(beams)) => fused::Places::Rows(&beams.source),
            (None, None) => {
                identity = (0..query.dims()[0] as u32).collect();
                fused::Places::Rows(&identity)
            }
        };
        let mask = mask.map(AttentionMask::blocked);
        fused::attention_step(query, &self.packed, places, self.length, mask)
    }

    /// Keys and values of each target's tokens.
    pub fn of_targets(self, targets: usize, past: Option<&Past>) -> KeyValue {
        KeyValue::from_packed(match past {
            Some(past) => past.gather(self.packed),
            None => self.packed.narrow(0, 0, targets).narrow(1, 0, self.length),
        })
    }
}

fn indices(values: impl IntoIterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// Keys and values that grow with the targets, packed `[N, C, 2 H, K]`, in a buffer that works as
/// `Vec` does: it is allocated once where the capacity is known, doubles where it is not, and is
/// written in place.
///
/// The first append to a cache without capacity keeps the tensor as it is, so that training, which
/// decodes once with an empty cache, pays nothing for it.
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    buffer: Option<Tensor<4>>,
    length: usize,
    max_rows: usize,
    max_length: usize,
}

impl KeyValueCache {
    /// An empty cache; the buffer is allocated at the first append, for `max_rows` targets of
    /// `max_length` tokens.
    pub fn with_capacity(max_rows: usize, max_length: usize) -> Self {
        Self {
            max_rows,
            max_length,
            ..Self::default()
        }
    }

    /// Number of tokens held of each target.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no token is held.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Rows and positions of the buffer, as it is or will be allocated for `rows` targets of
    /// `length` tokens.
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

    /// Adds the keys and values of the targets' next tokens, target `i` in row `i`, and returns
    /// the buffer.
    ///
    /// # Shapes
    ///
    /// - new: `[R, T, 2 H, K]`
    /// - output: `[N, C, 2 H, K]` with `N >= R` and `C >= len`
    ///
    /// # Panics
    ///
    /// If `H` or `K` differ from those held.
    pub fn append(&mut self, new: Tensor<4>) -> Tensor<4> {
        let [rows, added, heads, d_head] = new.dims();
        let total = self.length + added;
        let [n, c] = self.capacity_for(rows, total);
        let past = std::mem::replace(&mut self.length, total);
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
