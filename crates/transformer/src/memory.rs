//! What a decoder knows besides its input: the encoded source, and the targets so far.

use burn::tensor::Tensor;

use crate::attention::cache::{Beams, Keys, Past, Rows};
use crate::attention::{CrossAttention, KeyValueCache};
use crate::mask::AttentionMask;
use crate::position::Rotation;

/// What the decoder attends to: the encoder's output, and which of it is padding.
#[derive(Clone, Debug)]
pub struct Memory {
    /// `[B, S, D]`
    pub states: Tensor<3>,
    /// Mask of the source, `[B, 1, 1, S]`.
    pub mask: Option<AttentionMask>,
}

impl From<Tensor<3>> for Memory {
    fn from(states: Tensor<3>) -> Self {
        Self { states, mask: None }
    }
}

/// What all layers of one forward pass share.
#[derive(Clone, Debug)]
pub(crate) struct Step<'a> {
    pub mask: Option<&'a AttentionMask>,
    pub rotation: Option<&'a Rotation>,
    pub rows: Rows,
}

impl<'a> Step<'a> {
    /// A pass over whole targets, one for each source.
    pub fn whole(mask: Option<&'a AttentionMask>, rotation: Option<&'a Rotation>) -> Self {
        Self {
            mask,
            rotation,
            rows: Rows::default(),
        }
    }
}

/// What one decoder layer remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerCache {
    pub self_attention: KeyValueCache,
    /// Keys and values of the memory, projected at the first step: `[B, S, 2 H, K]`.
    cross_attention: Option<Tensor<4>>,
}

impl LayerCache {
    /// Keys and values of the memory, for `targets` targets.
    pub fn project(
        &mut self,
        attention: &CrossAttention,
        memory: &Memory,
        targets: usize,
        rows: &Rows,
    ) -> Keys {
        let packed = self
            .cross_attention
            .get_or_insert_with(|| attention.project_packed(memory.states.clone()))
            .clone();
        let [batch, held, ..] = packed.dims();
        let [b, s, _] = memory.states.dims();
        let expected = if rows.beams.is_some() { batch } else { targets };
        assert!(
            [b, s] == [batch, held] && batch == expected,
            "the memory is [{b}, {s}, ..] and there are {targets} targets, but the cache holds a memory of [{batch}, {held}, ..]: each memory needs a new cache"
        );
        Keys {
            packed,
            length: held,
        }
    }
}

/// What the decoder remembers of the tokens so far, and of one memory.
///
/// Decoding all of a target with an empty cache is what training does; decoding one more token
/// with a full one is a step of generation. A cache belongs to one memory and one batch: take a
/// new one for the next source. Targets may branch and end on the way: [`branch`](Self::branch).
#[derive(Clone, Debug)]
pub struct DecoderCache {
    pub(crate) layers: Vec<LayerCache>,
    pub(crate) length: usize,
    /// Number of targets of the last step.
    targets: usize,
    branches: Option<Branches>,
}

/// Where each target comes from.
#[derive(Clone, Debug)]
struct Branches {
    /// The source of each target.
    source: Vec<u32>,
    /// The cache's row that holds each token of each target; none while target `i` is in row `i`.
    past: Option<Vec<Vec<u32>>>,
}

impl DecoderCache {
    pub(crate) fn new(n_layers: usize, max_rows: usize, max_length: usize) -> Self {
        let layer = LayerCache {
            self_attention: KeyValueCache::with_capacity(max_rows, max_length),
            cross_attention: None,
        };
        Self {
            layers: vec![layer; n_layers],
            length: 0,
            targets: 0,
            branches: None,
        }
    }

    /// Number of target tokens decoded so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no token has been decoded yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Replaces the targets: the `i`-th of the next step goes on from target `parents[i]` of the
    /// last one (before the first step: from source `parents[i]`). One may go on several times,
    /// or not at all. No keys or values are copied.
    ///
    /// # Panics
    ///
    /// If a parent does not exist, here or at the next step.
    pub fn branch(&mut self, parents: &[usize]) {
        let targets = self.targets;
        assert!(
            self.is_empty() || parents.iter().all(|&parent| parent < targets),
            "the parents are {parents:?}, but the last step had {targets} targets"
        );
        let n_parents = parents.iter().max().map_or(0, |last| last + 1);
        let branches = self.branches.get_or_insert_with(|| Branches {
            source: (0..n_parents as u32).collect(),
            past: None,
        });
        let in_place = parents.iter().enumerate().all(|(i, &parent)| i == parent);
        if !in_place || branches.past.is_some() {
            let length = self.length;
            let past = parents.iter().map(|&parent| {
                let mut rows = Vec::with_capacity(length + 1);
                match &branches.past {
                    Some(past) => rows.extend_from_slice(&past[parent]),
                    None => rows.resize(length, parent as u32),
                }
                rows
            });
            branches.past = Some(past.collect());
        }
        let source = parents.iter().map(|&parent| branches.source[parent]);
        branches.source = source.collect();
    }

    /// Counts `length` more tokens of each target, and says where the rows of all are.
    pub(crate) fn extend(
        &mut self,
        targets: usize,
        length: usize,
        memory: Option<&Memory>,
    ) -> Rows {
        let total = self.length + length;
        self.length = total;
        self.targets = targets;
        let Some(branches) = &mut self.branches else {
            return Rows::default();
        };
        assert_eq!(
            targets,
            branches.source.len(),
            "there are {targets} targets, but the cache has {}",
            branches.source.len()
        );
        let beams = memory.and_then(|memory| {
            let n_sources = memory.states.dims()[0];
            let one_each = branches.source.iter().copied().eq(0..n_sources as u32);
            (!one_each).then(|| Beams::new(branches.source.clone(), n_sources))
        });
        let past = branches.past.as_mut().map(|past| {
            for (row, past) in past.iter_mut().enumerate() {
                past.extend(std::iter::repeat_n(row as u32, length));
            }
            Past::new(past.concat(), total)
        });
        Rows { past, beams }
    }
}
