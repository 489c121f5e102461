//! The usual hyper-parameters of each layout, and the hyper-parameters that a layout cannot
//! represent.

use std::fmt;

use super::activation;
use super::name::Layout;
use crate::choice::Choice;
use crate::config::{
    Activation, NormKind, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
use crate::weights::contents::Contents;

impl Layout {
    /// Returns the layout's usual values of the hyper-parameters that weights do not show.
    ///
    /// Sizes in the result, such as `d_model`, are placeholders. `vocab_size` determines Marian's
    /// `pad_id`.
    pub(in crate::weights) fn usual(self, vocab_size: usize) -> TransformerConfig {
        // Weights do not show the dropout probability. With 0, a device with autodiff gives the
        // same logits as a device without.
        let config = TransformerConfig::new(1, 1).with_dropout(0.0);
        let pre = || config.clone().with_norm_placement(NormPlacement::Pre);
        match self {
            Self::Native | Self::Paper | Self::TorchNn => config,
            Self::Labml => pre(),
            Self::Annotated => pre()
                .with_norm_variance(NormVariance::Unbiased)
                // The Annotated Transformer adds 1e-6 to the standard deviation, this crate ε to
                // the variance. An ε of 2e-6 has the same effect where the standard deviation is 1.
                .with_norm_epsilon(2e-6),
            Self::Marian => config
                .with_activation(Activation::Swish)
                .with_positions(Positions::SinusoidalHalves)
                .with_final_norm(false)
                .with_pad_id(u32::try_from(vocab_size.saturating_sub(1)).unwrap_or(0)),
            Self::Bart => config
                .with_activation(Activation::Gelu)
                .with_positions(Positions::Learned)
                .with_embedding_norm(true)
                .with_scale_embeddings(false)
                .with_pad_id(1),
            Self::M2m100 => pre()
                .with_positions(Positions::SinusoidalFairseq)
                .with_max_len(1024)
                .with_pad_id(1),
            Self::T5 | Self::T5Gated => pre()
                .with_activation(match self {
                    Self::T5 => Activation::Relu,
                    _ => Activation::GegluTanh,
                })
                .with_norm(NormKind::Rms)
                .with_norm_epsilon(1e-6)
                .with_positions(Positions::Relative)
                .with_biases(false)
                .with_logits_bias(false)
                .with_scale_attention(false)
                .with_scale_embeddings(false),
        }
    }

    /// Returns `config` with the choices of the models that have this layout.
    ///
    /// The choices are norms, positions, activation, biases and scales, and for Hugging Face's
    /// layouts also weight tying. Sizes, dropout and `pad_id` do not change.
    ///
    /// ```
    /// use transformer::weights::Layout;
    /// use transformer::{NormKind, TransformerConfig};
    ///
    /// let t5 = Layout::T5.choices(TransformerConfig::new(1000, 1000).with_d_model(128));
    /// assert_eq!((t5.norm, t5.d_model), (NormKind::Rms, 128));
    /// ```
    pub fn choices(self, config: TransformerConfig) -> TransformerConfig {
        let usual = self.usual(config.target_vocab_size);
        let weight_tying = match self {
            Self::Bart | Self::M2m100 | Self::Marian | Self::T5 => WeightTying::All,
            Self::T5Gated => WeightTying::Embeddings,
            _ => config.weight_tying,
        };
        TransformerConfig {
            activation: usual.activation,
            norm_placement: usual.norm_placement,
            final_norm: match self {
                // BART, which is post-norm, has no final norm.
                Self::Bart => false,
                _ => usual.final_norm,
            },
            norm_epsilon: usual.norm_epsilon,
            norm_variance: usual.norm_variance,
            norm: usual.norm,
            embedding_norm: usual.embedding_norm,
            biases: usual.biases,
            logits_bias: usual.logits_bias && self != Self::M2m100,
            scale_attention: usual.scale_attention,
            scale_embeddings: usual.scale_embeddings,
            scale_logits: self == Self::T5,
            positions: usual.positions,
            weight_tying,
            ..config
        }
    }

    /// Returns the Hugging Face layout that can represent a model, if there is one.
    ///
    /// ```
    /// use transformer::TransformerConfig;
    /// use transformer::weights::Layout;
    ///
    /// let config = TransformerConfig::new(20, 20);
    /// assert_eq!(Layout::of_hugging_face(&config), None);
    /// assert_eq!(Layout::of_hugging_face(&Layout::T5.choices(config)), Some(Layout::T5));
    /// ```
    pub fn of_hugging_face(config: &TransformerConfig) -> Option<Self> {
        Self::ALL.iter().copied().find(|layout| {
            layout.is_hugging_face() && layout.unsupported(config, Contents::Model).is_none()
        })
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
        let is_free = matches!(self, Self::Paper | Self::TorchNn | Self::Bart);
        if !is_free && config.norm_placement != usual.norm_placement {
            return Some(("norm_placement", value(&config.norm_placement)));
        }
        // In `torch.nn`, an encoder alone or a decoder alone may lack the final norm.
        let may_lack_norm = self == Self::TorchNn && contents != Contents::Model;
        // BART, which is post-norm, has no final norm. mBART, which is pre-norm, has one.
        let has_norm = match self {
            Self::Bart => config.norm_placement == NormPlacement::Pre,
            _ => usual.final_norm,
        };
        if config.final_norm != has_norm && !may_lack_norm {
            return Some(("final_norm", value(&config.final_norm)));
        }
        if config.norm_variance != usual.norm_variance {
            return Some(("norm_variance", value(&config.norm_variance)));
        }
        // Pegasus has the tensor names of M2M100 and the positions of Marian, without a table in
        // the file.
        let is_pegasus = self == Self::M2m100 && config.positions == Positions::SinusoidalHalves;
        if config.positions != usual.positions && !is_pegasus {
            return Some(("positions", value(&config.positions)));
        }
        if config.activation.is_gated() != usual.activation.is_gated() {
            return Some(("activation", value(&config.activation)));
        }
        // The `config.json` of T5 has no name for this activation.
        let is_t5 = matches!(self, Self::T5 | Self::T5Gated);
        if is_t5 && activation::name_of(config.activation).is_none() {
            return Some(("activation", value(&config.activation)));
        }
        let is_configurable = matches!(self, Self::Bart | Self::M2m100 | Self::Marian);
        if config.scale_embeddings != usual.scale_embeddings && !is_configurable {
            return Some(("scale_embeddings", value(&config.scale_embeddings)));
        }
        if is_configurable && config.weight_tying != WeightTying::All {
            return Some(("weight_tying", value(&config.weight_tying)));
        }
        // The `config.json` of BART and its relatives has no field for epsilon.
        if is_configurable && config.norm_epsilon != usual.norm_epsilon {
            return Some(("norm_epsilon", value(&config.norm_epsilon)));
        }
        // Both stacks of T5 share one embedding table.
        if is_t5 && !config.weight_tying.shares_source() {
            return Some(("weight_tying", value(&config.weight_tying)));
        }
        if config.norm != usual.norm {
            return Some(("norm", value(&config.norm)));
        }
        if let Some(n_kv_heads) = config.n_kv_heads
            && n_kv_heads != config.n_heads
        {
            return Some(("n_kv_heads", value(&n_kv_heads)));
        }
        if let Some(d_kv) = config.d_kv
            && !is_t5
            && d_kv != config.d_model / config.n_heads
        {
            return Some(("d_kv", value(&d_kv)));
        }
        for (name, has, usual) in [
            (
                "embedding_norm",
                config.embedding_norm,
                usual.embedding_norm,
            ),
            ("biases", config.biases, usual.biases),
            // M2M100 has no bias of the logits, but Pegasus has one.
            (
                "logits_bias",
                config.logits_bias,
                usual.logits_bias && (is_pegasus || self != Self::M2m100),
            ),
            (
                "scale_attention",
                config.scale_attention,
                usual.scale_attention,
            ),
            (
                "scale_logits",
                config.scale_logits,
                usual.scale_logits || is_t5 && config.scale_logits,
            ),
        ] {
            if has != usual {
                return Some((name, value(&has)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_represents_the_choices_of_its_models() {
        let config = TransformerConfig::new(20, 20).with_final_norm(false);
        for &layout in Layout::ALL {
            let config = layout.choices(config.clone());
            let unsupported = layout.unsupported(&config, Contents::Model);
            assert_eq!(unsupported, None, "{layout}");
            let found = Layout::of_hugging_face(&config);
            assert_eq!(found, layout.is_hugging_face().then_some(layout));
            assert_eq!(config.validate(), Ok(()), "{layout}");
        }
    }
}
