//! The memory of the source and the cache of earlier target tokens, both of which a decoder
//! reads.

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::attention::cache::KeyValueCache;
use crate::attention::index::{SourceRows, TargetIndex, TokenRows};
use crate::attention::multi_head::CrossAttention;
use crate::mask::AttentionMask;
use crate::position::PositionTerm;

/// The memory to which the decoder attends: the encoder's output and the padding mask of the
/// source.
///
/// A cache belongs to a memory and its clones. Another memory needs a new cache, even if it has the same
/// states.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) states: Tensor<3>,
    pub(crate) mask: Option<AttentionMask>,
    /// What a cache recognises the memory by.
    identity: Arc<()>,
}

impl Memory {
    /// Creates a memory of states `[B, S, D]`, such as those of an encoder of your own, and of the padding
    /// mask of their sources, `[B or 1, 1, 1, S]`.
    ///
    /// # Panics
    ///
    /// If the mask has another shape.
    pub fn new(states: Tensor<3>, mask: impl Into<Option<AttentionMask>>) -> Self {
        let mask = mask.into();
        if let Some(mask) = &mask {
            mask.check_of_memory(states.dims());
        }
        Self {
            states,
            mask,
            identity: Arc::default(),
        }
    }

    /// Returns the encoder's output, `[B, S, D]`.
    pub fn states(&self) -> &Tensor<3> {
        &self.states
    }

    /// Returns the padding mask of the source, `[B, 1, 1, S]`, `true` = blocked; `None` if no key is
    /// blocked.
    pub fn mask(&self) -> Option<&AttentionMask> {
        self.mask.as_ref()
    }

    /// Returns the memory without autodiff.
    pub(crate) fn inner(self) -> Self {
        Self {
            states: self.states.inner(),
            ..self
        }
    }
}

impl From<Tensor<3>> for Memory {
    fn from(states: Tensor<3>) -> Self {
        Self::new(states, None)
    }
}

/// Masks, positions and indices that all layers share in one pass of the decoder.
#[derive(Clone, Debug)]
pub(crate) struct DecoderPass<'a> {
    /// Causal mask of the targets; `None` if no key is blocked, as in a pass over one token.
    pub mask: Option<&'a AttentionMask>,
    /// Rotary, relative or ALiBi positions, which act in self-attention; `None` without them.
    pub position: Option<&'a PositionTerm>,
    /// Cache row of each token of each target, and the source of each target.
    pub index: TargetIndex,
}

/// The cache of one decoder layer, empty at first.
#[derive(Clone, Debug, Default)]
pub struct LayerCache {
    /// Keys and values of the targets' earlier tokens.
    pub(crate) self_attention: KeyValueCache,
    /// Keys and values of the memory, `[B, S, 2 G, K]`, and its identity; `None` before the first pass, and
    /// without cross-attention.
    cross_attention: Option<(Tensor<4>, Arc<()>)>,
    /// Source of each target; `None` until targets branch.
    sources: Option<Vec<u32>>,
}

impl LayerCache {
    /// Returns the number of tokens of each target.
    pub fn len(&self) -> usize {
        self.self_attention.len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.self_attention.is_empty()
    }

    /// Lets target `i` of the next call continue target `parents[i]` of the latest one, or, before the
    /// first call, belong to source `parents[i]`. A target may have several continuations, or none.
    ///
    /// The keys and values of the targets' tokens are copied. The memory stays that of the sources,
    /// as it was.
    ///
    /// # Panics
    ///
    /// If a parent target does not exist. If a parent source does not exist, the next call panics.
    pub fn branch(&mut self, parents: &[usize]) {
        self.self_attention.branch(parents);
        let sources = parents.iter().map(|&parent| match &self.sources {
            Some(sources) => sources[parent],
            None => parent as u32,
        });
        self.sources = Some(sources.collect());
    }

    /// Returns the sources of the targets in a call with `memory`.
    pub(crate) fn index(&self, memory: Option<&Memory>) -> TargetIndex {
        let sources = self.sources.as_ref().zip(memory);
        let sources = sources
            .map(|(sources, memory)| SourceRows::new(sources.clone(), memory.states.dims()[0]));
        TargetIndex {
            tokens: None,
            sources,
        }
    }

    /// Returns the keys and values of the memory, `[B, S, 2 G, K]`. The first call computes them.
    ///
    /// # Panics
    ///
    /// If the cache holds another memory, or if `index.sources` is `None` and the number
    /// of sources is not `targets`.
    pub(crate) fn project(
        &mut self,
        attention: &CrossAttention,
        memory: &Memory,
        targets: usize,
        index: &TargetIndex,
    ) -> Tensor<4> {
        let project = || attention.project(memory.states.clone());
        let (packed, identity) = self
            .cross_attention
            .get_or_insert_with(|| (project(), memory.identity.clone()));
        let [batch, held, ..] = packed.dims();
        let [b, s, _] = memory.states.dims();
        let expected = match index.sources {
            Some(_) => batch,
            None => targets,
        };
        assert!(
            Arc::ptr_eq(identity, &memory.identity) && [b, s] == [batch, held],
            "the memory is [{b}, {s}, ..], but the cache holds another one, of [{batch}, {held}, ..]: each memory needs a new cache"
        );
        assert_eq!(
            batch, expected,
            "the memory has {b} sources, but there are {targets} targets"
        );
        packed.clone()
    }
}

/// The keys and values of the tokens decoded so far, and of one memory.
///
/// Training decodes whole targets with an empty cache. Generation decodes one token of each target
/// at a time, with the earlier tokens in the cache. A cache belongs to one memory and one batch:
/// the next batch of sources needs a new cache. Targets may branch and end: see
/// [`branch`](Self::branch).
#[derive(Clone, Debug)]
pub struct DecoderCache {
    pub(crate) layers: Vec<LayerCache>,
    pub(crate) length: usize,
    /// Number of targets in the latest pass.
    targets: usize,
    /// Source of each target, as an index into the batch; `None` until targets branch.
    sources: Option<Vec<u32>>,
    /// Cache row of each token of each target; `None` while all tokens of target `i` are in row
    /// `i`.
    token_rows: Option<Vec<Vec<u32>>>,
}

impl DecoderCache {
    /// Returns an empty cache for `n_layers` layers. The first append to a layer makes its buffer
    /// large enough for `max_rows` targets of `max_length` tokens; beyond that, the cache grows as
    /// needed.
    pub(crate) fn new(n_layers: usize, max_rows: usize, max_length: usize) -> Self {
        let layer = LayerCache {
            self_attention: KeyValueCache::with_capacity(max_rows, max_length),
            cross_attention: None,
            sources: None,
        };
        Self {
            layers: vec![layer; n_layers],
            length: 0,
            targets: 0,
            sources: None,
            token_rows: None,
        }
    }

    /// Returns the number of tokens decoded so far, which is the same for all targets.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether no tokens have been decoded.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Replaces the targets: target `i` of the next step continues target `parents[i]` of the
    /// previous step.
    ///
    /// Before the first step, target `i` belongs to source `parents[i]` instead. A target may have
    /// several continuations, or none. No keys or values are copied. Call this function at most
    /// once before each step.
    ///
    /// # Panics
    ///
    /// If a parent target does not exist. If a parent source does not exist, the next step panics.
    pub fn branch(&mut self, parents: &[usize]) {
        let before = self.sources.as_ref().map(Vec::len);
        let targets = before.filter(|_| self.is_empty()).unwrap_or(self.targets);
        assert!(
            self.is_empty() && before.is_none() || parents.iter().all(|&parent| parent < targets),
            "the parents are {parents:?}, but the last step had {targets} targets"
        );
        let n_parents = parents.iter().max().map_or(0, |last| last + 1);
        let sources = self
            .sources
            .take()
            .unwrap_or_else(|| (0..n_parents as u32).collect());
        let in_place = parents.iter().enumerate().all(|(i, &parent)| i == parent);
        if !in_place || self.token_rows.is_some() {
            let length = self.length;
            let token_rows = parents.iter().map(|&parent| {
                let mut rows = Vec::with_capacity(length + 1);
                match &self.token_rows {
                    Some(before) => rows.extend_from_slice(&before[parent]),
                    None => rows.resize(length, parent as u32),
                }
                rows
            });
            self.token_rows = Some(token_rows.collect());
        }
        self.sources = Some(parents.iter().map(|&parent| sources[parent]).collect());
    }

    /// Records `length` more tokens for each of `targets` targets. Returns the cache row of each
    /// token and the source of each target.
    ///
    /// # Panics
    ///
    /// If the last call of [`branch`](Self::branch) or, without one, the last step had another
    /// number of targets.
    pub(crate) fn extend(
        &mut self,
        targets: usize,
        length: usize,
        memory: Option<&Memory>,
    ) -> TargetIndex {
        let before = self.targets;
        assert!(
            self.sources.is_some() || self.is_empty() || targets == before,
            "there are {targets} targets, but the cache has {before}"
        );
        let total = self.length + length;
        if self
            .layers
            .iter()
            .any(|layer| layer.self_attention.is_full(length))
            && let Some(rows) = self.token_rows.take()
        {
            // Larger buffers get only the tokens that are still needed.
            let rows = TokenRows::new(rows.concat(), self.length);
            for layer in &mut self.layers {
                layer.self_attention.gather(&rows);
            }
        }
        self.length = total;
        self.targets = targets;
        let Some(sources) = &self.sources else {
            return TargetIndex::default();
        };
        assert_eq!(
            targets,
            sources.len(),
            "there are {targets} targets, but the cache has {}",
            sources.len()
        );
        let tokens = self.token_rows.as_mut().map(|token_rows| {
            for (row, rows) in token_rows.iter_mut().enumerate() {
                rows.extend(std::iter::repeat_n(row as u32, length));
            }
            TokenRows::new(token_rows.concat(), total)
        });
        let sources = memory.and_then(|memory| {
            let n_sources = memory.states.dims()[0];
            let one_each = sources.iter().copied().eq(0..n_sources as u32);
            (!one_each).then(|| SourceRows::new(sources.clone(), n_sources))
        });
        TargetIndex { tokens, sources }
    }
}
