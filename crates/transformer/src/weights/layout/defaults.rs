//! What the layouts' weights do not show: the usual hyper-parameters, and their limits.

use std::fmt;

use super::name::Layout;
use crate::config::{
    Activation, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
use crate::weights::contents::Contents;

impl Layout {
    /// What a model has that was written with this layout, where its weights do not show it. The
    /// sizes are not meant.
    pub(in crate::weights) fn usual(self, vocab_size: usize) -> TransformerConfig {
        let config = TransformerConfig::new(1, 1);
        match self {
            Self::Native | Self::Paper | Self::TorchNn => config,
            Self::Labml => config.with_norm_placement(NormPlacement::Pre),
            Self::Annotated => config
                .with_norm_placement(NormPlacement::Pre)
                .with_norm_variance(NormVariance::Unbiased)
                // Added to the standard deviation there, 1e-6; to the variance here. They come to
                // the same where the deviation is 1.
                .with_norm_epsilon(2e-6),
            Self::Marian => config
                .with_activation(Activation::Swish)
                .with_positions(Positions::SinusoidalHalves)
                .with_final_norm(false)
                .with_pad_id(u32::try_from(vocab_size.saturating_sub(1)).unwrap_or(0)),
        }
    }

    /// What of a model this layout's classes cannot compute.
    pub(in crate::weights) fn refuses(
        self,
        config: &TransformerConfig,
        contents: Contents,
    ) -> Option<(&'static str, String)> {
        if self == Self::Native {
            return None;
        }
        let usual = self.usual(1);
        let value = |x: &dyn fmt::Debug| format!("{x:?}");
        let is_free = matches!(self, Self::Paper | Self::TorchNn);
        if !is_free && config.norm_placement != usual.norm_placement {
            return Some(("norm_placement", value(&config.norm_placement)));
        }
        // `torch.nn.TransformerEncoder` has one only if it is given one.
        let may_lack_norm = self == Self::TorchNn && contents != Contents::Model;
        if config.final_norm != usual.final_norm && !may_lack_norm {
            return Some(("final_norm", value(&config.final_norm)));
        }
        if config.norm_variance != usual.norm_variance {
            return Some(("norm_variance", value(&config.norm_variance)));
        }
        if config.positions != usual.positions {
            return Some(("positions", value(&config.positions)));
        }
        if config.activation.is_gated() {
            return Some(("activation", value(&config.activation)));
        }
        if !config.scale_embeddings {
            return Some(("scale_embeddings", value(&config.scale_embeddings)));
        }
        if self == Self::Marian && config.weight_tying != WeightTying::All {
            return Some(("weight_tying", value(&config.weight_tying)));
        }
        None
    }
}
