//! What a decoder knows besides its input: the encoded source, and the target so far.

use burn::tensor::Tensor;

use crate::attention::{KeyValue, KeyValueCache};
use crate::mask::AttentionMask;

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

/// What one decoder layer remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerCache {
    pub self_attention: KeyValueCache,
    /// Keys and values of the memory, projected at the first step.
    pub cross_attention: Option<KeyValue>,
}

/// What the decoder remembers of the tokens so far, and of one memory.
///
/// Decoding all of a target with an empty cache is what training does; decoding one more token
/// with a full one is a step of generation. A cache belongs to one memory and one batch: take a
/// new one for the next source.
#[derive(Clone, Debug)]
pub struct DecoderCache {
    pub(crate) layers: Vec<LayerCache>,
    pub(crate) length: usize,
}

impl DecoderCache {
    pub(crate) fn new(n_layers: usize, capacity: usize) -> Self {
        let layer = LayerCache {
            self_attention: KeyValueCache::with_capacity(capacity),
            cross_attention: None,
        };
        Self {
            layers: vec![layer; n_layers],
            length: 0,
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
}
