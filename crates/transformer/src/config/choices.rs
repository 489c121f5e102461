//! The hyper-parameters whose value is one of a few named choices.

use fused::Function;
use serde::{Deserialize, Serialize};

use crate::choice::choices;

/// Placement of layer normalisation in a residual block (paper, section 5.4; Xiong et al. 2020).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormPlacement {
    /// `norm(x + dropout(sublayer(x)))`, as in the paper.
    Post,
    /// `x + dropout(sublayer(norm(x)))`, which trains without a long warm-up.
    Pre,
}

choices!(NormPlacement, "norm_placement", {
    Post: "post", "After the residual sum, as in the paper";
    Pre: "pre", "Before the sublayer";
});

/// Activation function of the feed-forward network (paper, section 3.3).
///
/// `Glu`, `Geglu`, `GegluTanh` and `Swiglu` are gated (Shazeer 2020): they compute
/// `act(x W_g + b_g) * (x W_v + b_v)`, where `act` is the activation function of the gate. `Φ` is
/// the standard normal distribution function, and `σ` is the logistic sigmoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// `max(0, x)`, as in the paper.
    Relu,
    /// GELU, `x Φ(x)`, computed with the error function.
    Gelu,
    /// The tanh approximation of GELU, `x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`.
    GeluTanh,
    /// `x σ(x)`, also called SiLU.
    Swish,
    /// Gated linear unit with a sigmoid gate, `σ(x W_g + b_g)`.
    Glu,
    /// Gated linear unit with a GELU gate.
    Geglu,
    /// Gated linear unit whose gate is the tanh approximation of GELU, as in T5 1.1.
    GegluTanh,
    /// Gated linear unit with a Swish gate.
    Swiglu,
}

choices!(Activation, "activation", {
    Relu: "relu", "max(0, x), as in the paper";
    Gelu: "gelu", "GELU, exactly";
    GeluTanh: "gelu-tanh", "GELU, approximated with tanh";
    Swish: "swish", "Swish, also called SiLU";
    Glu: "glu", "Gated by a sigmoid";
    Geglu: "geglu", "Gated by GELU";
    GegluTanh: "geglu-tanh", "Gated by GELU, approximated with tanh";
    Swiglu: "swiglu", "Gated by Swish";
});

impl Activation {
    /// Returns whether the activation is gated.
    ///
    /// The first linear layer then has `2 * d_ff` outputs, one half for the gates and the other
    /// half for the values.
    pub fn is_gated(self) -> bool {
        self.operation().is_gated
    }

    /// Returns the operation that computes the activation.
    pub fn operation(self) -> fused::Activation {
        let (function, is_gated) = match self {
            Self::Relu => (Function::Relu, false),
            Self::Gelu => (Function::Gelu, false),
            Self::GeluTanh => (Function::GeluTanh, false),
            Self::Swish => (Function::Swish, false),
            Self::Glu => (Function::Sigmoid, true),
            Self::Geglu => (Function::Gelu, true),
            Self::GegluTanh => (Function::GeluTanh, true),
            Self::Swiglu => (Function::Swish, true),
        };
        fused::Activation { function, is_gated }
    }
}

/// Kind of normalisation: layer normalisation or RMS normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormKind {
    /// Layer normalisation, as in the paper: each vector is shifted to mean 0 and scaled to
    /// variance 1, before the trained scale and shift.
    #[default]
    Layer,
    /// RMS normalisation (Zhang and Sennrich 2019), as in T5: each vector is divided by its root
    /// mean square, before a trained scale. Nothing is shifted.
    Rms,
}

choices!(NormKind, "norm", {
    Layer: "layer", "Layer norm, as in the paper";
    Rms: "rms", "Root mean square, without mean and shift";
});

/// Divisor with which a layer norm over `D` elements computes the variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormVariance {
    /// `D`, as in the layer normalisation paper and `torch.nn.LayerNorm`.
    #[default]
    Biased,
    /// `D - 1`, as in the Annotated Transformer.
    Unbiased,
}

choices!(NormVariance, "norm_variance", {
    Biased: "biased", "Divide by the width, as torch.nn.LayerNorm does";
    Unbiased: "unbiased", "Divide by the width less 1, as the Annotated Transformer does";
});

/// Positional encoding (paper, section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Positions {
    /// Fixed, alternating sines and cosines, added to the embeddings, as in the paper.
    Sinusoidal,
    /// Fixed sines and cosines, all sines before all cosines, as in Hugging Face's Marian models.
    ///
    /// `d_model` must be even.
    SinusoidalHalves,
    /// Fixed sines and cosines as in fairseq and its models M2M100 and NLLB.
    ///
    /// All sines come before all cosines, the lowest frequency is `1 / 10000`, and the first token
    /// is at position `pad_id + 1`. In sources, padding has no position, and the positions of later
    /// tokens do not count it.
    ///
    /// `d_model` must be even and at least 4.
    SinusoidalFairseq,
    /// Trained table `[max_len, d_model]`, added to the embeddings.
    Learned,
    /// Rotation of queries and keys in self-attention (RoPE, Su et al. 2021). As in the library
    /// `transformers`, dimension `i` is paired with `i + K/2`; Meta's files and GPT-J pair adjacent
    /// dimensions.
    Rotary,
    /// A trained bias per head and bucket of distances, added to the scores of self-attention (T5,
    /// Raffel et al. 2020, section 2.1).
    Relative,
    /// A fixed slope per head times the distance, subtracted from the scores of self-attention
    /// (ALiBi, Press et al. 2022).
    Alibi,
    /// No positional encoding: the encoder then ignores the order of the source tokens.
    None,
}

choices!(Positions, "positions", {
    Sinusoidal: "sinusoidal", "Fixed sines and cosines in turn, as in the paper";
    SinusoidalHalves: "sinusoidal-halves", "Fixed sines and cosines, all sines before all cosines";
    SinusoidalFairseq: "sinusoidal-fairseq", "Fixed sines and cosines as in M2M100 and NLLB";
    Learned: "learned", "Trained table, one vector per position";
    Rotary: "rotary", "Rotated queries and keys";
    Relative: "relative", "Trained number per distance, added to the scores, as in T5";
    Alibi: "alibi", "Fixed slope times the distance, subtracted from the scores";
    None: "none", "No positional encoding";
});

/// Sharing of the three vocabulary matrices: the encoder's embedding, the decoder's embedding and
/// the generator's weight (paper, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WeightTying {
    /// Three separate matrices.
    None,
    /// The generator's weight is the transpose of the decoder's embedding.
    Decoder,
    /// The encoder shares the decoder's embedding, and the generator has a matrix of its own, as in
    /// T5 1.1.
    ///
    /// Both vocabularies must have the same size.
    Embeddings,
    /// The encoder and the generator share the decoder's embedding.
    ///
    /// Both vocabularies must have the same size.
    All,
}

choices!(WeightTying, "weight_tying", {
    None: "none", "Three separate matrices";
    Decoder: "decoder", "The decoder's embedding and the generator";
    Embeddings: "embeddings", "Both embeddings";
    All: "all", "Both embeddings and the generator";
});

impl WeightTying {
    /// Returns whether the encoder has no embedding table of its own.
    pub fn shares_source(self) -> bool {
        matches!(self, Self::Embeddings | Self::All)
    }

    /// Returns whether the generator has no weight of its own.
    pub fn shares_generator(self) -> bool {
        matches!(self, Self::Decoder | Self::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Choice;

    /// Checks that every choice is parsed from its name, and that configuration files use the same
    /// name with underscores instead of hyphens.
    fn check<C: Choice + PartialEq + std::fmt::Debug + Serialize>(n_choices: usize) {
        assert_eq!(C::ALL.len(), n_choices);
        for &choice in C::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
            let word = serde_json::to_value(choice).unwrap();
            assert_eq!(word, choice.name().replace('-', "_"));
            assert!(!choice.summary().is_empty());
        }
        let error = "neither".parse::<C>().unwrap_err();
        assert_eq!(error.field, C::SETTING);
        assert_eq!(error.value, "neither");
    }

    #[test]
    fn choices_have_one_name_everywhere() {
        check::<NormPlacement>(2);
        check::<Activation>(8);
        check::<NormKind>(2);
        check::<NormVariance>(2);
        check::<Positions>(8);
        check::<WeightTying>(4);
    }
}
