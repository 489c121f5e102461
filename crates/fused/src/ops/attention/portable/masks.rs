//! The attention mask and the dropout of the weights.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::BoolTensor;
use burn::backend::{Autodiff, Backend, Dispatch, ExtensionType};
use burn::tensor::Device;

use super::super::mask::KeyMask;
use crate::ops::dropout::draw::draw_key;
use crate::ops::dropout::portable::draw_dropped;

/// Minimum number of keys for which the backward pass computes the weights again, one block of
/// queries at a time. Keeping the weights of this many keys would need as much memory as all other
/// tensors that a layer keeps (`d_model` 512, 8 heads). For fewer keys, the weights are kept, which
/// is faster: on ndarray, a training step with 512 keys would otherwise take up to 10 % longer.
pub(super) const LONG: usize = 1024;

/// Dropout of the attention weights.
#[derive(Clone, Debug, ExtensionType)]
pub(crate) enum WeightDropout<B: Backend> {
    /// No weight is dropped.
    None,
    /// For fewer than [`LONG`] keys, weights are dropped where `dropped` is true.
    Drawn {
        /// Dropout mask, `[B, H, T, S]`, `true` = dropped.
        dropped: BoolTensor<B>,
        /// Probability that a weight is dropped.
        probability: f64,
    },
    /// For [`LONG`] keys or more, the dropout mask of each block of queries is computed from `key`.
    Keyed {
        /// Random bits from which the dropout masks are computed.
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
        if scores[3] >= LONG {
            Self::Keyed {
                key: draw_key(device),
                probability,
            }
        } else {
            Self::Drawn {
                dropped: draw_dropped(scores, probability, device),
                probability,
            }
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

#[derive(Clone, Debug)]
pub(super) struct Masks<B: Backend> {
    pub mask: KeyMask<B>,
    pub dropout: WeightDropout<B>,
}

impl<B: Backend> Masks<B> {
    /// Turns masks of the autodiff backend into masks of its inner backend `B`. Both backends have
    /// the same type of boolean tensors.
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
