//! The attention mask and the dropout of the weights.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::BoolTensor;
use burn::backend::{Autodiff, Backend, Dispatch, ExtensionType};
use burn::tensor::Device;

use super::super::mask::KeyMask;
use crate::ops::dropout::draw::draw_key;
use crate::ops::dropout::portable::draw_dropped;

/// From this number of keys on, the backward pass computes the weights again, for a block of
/// queries at a time, instead of keeping them. Kept weights of this many keys need as much memory
/// as all other tensors that a layer keeps (`d_model` 512, 8 heads). For fewer keys, keeping them
/// is faster: on ndarray, a step of 512 keys would otherwise take up to a tenth longer.
pub(super) const LONG: usize = 1024;

/// Dropout of the weights.
#[derive(Clone, Debug, ExtensionType)]
pub(crate) enum WeightDropout<B: Backend> {
    /// No weight is dropped.
    None,
    /// Weights are dropped where a mask is true; for less than [`LONG`] keys.
    Drawn {
        /// `[B, H, T, S]`, `true` = dropped.
        dropped: BoolTensor<B>,
        /// Probability that a weight is dropped.
        probability: f64,
    },
    /// Weights are dropped by a mask that is computed from a key for each block of queries; for
    /// [`LONG`] keys or more.
    Keyed {
        /// Random bits.
        key: u64,
        /// Probability that a weight is dropped.
        probability: f64,
    },
}

impl WeightDropout<Dispatch> {
    pub(super) fn draw(scores: [usize; 4], probability: f64, device: &Device) -> Self {
        if probability == 0.0 {
            return Self::None;
        }
        match scores[3] >= LONG {
            true => Self::Keyed {
                key: draw_key(device),
                probability,
            },
            false => Self::Drawn {
                dropped: draw_dropped(scores, probability, device),
                probability,
            },
        }
    }
}

impl<B: Backend> WeightDropout<B> {
    pub(super) fn probability(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Drawn { probability, .. } | Self::Keyed { probability, .. } => probability,
        }
    }
}

/// Attention mask and dropout.
#[derive(Clone, Debug)]
pub(super) struct Masks<B: Backend> {
    pub mask: KeyMask<B>,
    pub dropout: WeightDropout<B>,
}

impl<B: Backend> Masks<B> {
    /// Takes the masks for the backend under autodiff, which has the same boolean tensors.
    pub(super) fn inner<C: CheckpointStrategy>(
        mask: KeyMask<Autodiff<B, C>>,
        dropout: WeightDropout<Autodiff<B, C>>,
    ) -> Self {
        Self {
            mask: mask.inner(),
            dropout: match dropout {
                WeightDropout::None => WeightDropout::None,
                WeightDropout::Drawn {
                    dropped,
                    probability,
                } => WeightDropout::Drawn {
                    dropped,
                    probability,
                },
                WeightDropout::Keyed { key, probability } => {
                    WeightDropout::Keyed { key, probability }
                }
            },
        }
    }
}
