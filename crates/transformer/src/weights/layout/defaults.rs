//! The usual hyper-parameters of each layout, and the hyper-parameters that a layout cannot
//! represent.

use std::fmt;

use super::name::Layout;
use crate::config::{
    Activation, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
use crate::weights::contents::Contents;

impl Layout {
    /// Returns the layout's usual values of the hyper-parameters that weights do not show.
    ///
    /// Sizes in the result, such as `d_model`, are placeholders. `vocab_size` determines Marian's
    /// `pad_id`.
    pub(in crate::weights) fn usual(self, vocab_size: usize) -> TransformerConfig {
        let config = TransformerConfig::new(1, 1);
        match self {
            Self::Native | Self::Paper | Self::TorchNn => config,
            Self::Labml => config.with_norm_placement(NormPlacement::Pre),
            Self::Annotated => config
                .with_norm_placement(NormPlacement::Pre)
                .with_norm_variance(NormVariance::Unbiased)
                // The Annotated Transformer adds 1e-6 to the standard deviation, this crate ε to
                // the variance. An ε of 2e-6 has the same effect where the standard deviation is 1.
                .with_norm_epsilon(2e-6),
            Self::Marian => config
                .with_activation(Activation::Swish)
                .with_positions(Positions::SinusoidalHalves)
                .with_final_norm(false)
                .with_pad_id(u32::try_from(vocab_size.saturating_sub(1)).unwrap_or(0)),
        }
    }

    /// Returns the name and value of the first hyper-parameter that the layout cannot represent,
    /// or `None` if the layout can represent the model.
    pub(in crate::weights) fn unsupported(
        self,
        config: &TransformerConfig,
        contents: Contents,
    ) -> Option<(&'static str, String)> {
        if self == Self::Native {
            return None;
        }
        let usual = self.usual(1);
        let value = |x: &dyn fmt::Display| x.to_string();
        let is_free = matches!(self, Self::Paper | Self::TorchNn);
        if !is_free && config.norm_placement != usual.norm_placement {
            return Some(("norm_placement", value(&config.norm_placement)));
        }
        // In `torch.nn`, an encoder alone or a decoder alone may lack the final norm.
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
