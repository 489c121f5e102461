//! The known layouts.

use crate::choice::choices;

/// The names and arrangement of the parameters in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// This crate's own names.
    Native,
    /// Models with names after the paper's symbols, such as
    /// `encoder.layers.0.self_attn.w_q.weight`.
    Paper,
    /// labml's annotated implementation, with names such as
    /// `encoder.layers.0.self_attn.query.linear.weight`.
    Labml,
    /// The Annotated Transformer, with names such as
    /// `encoder.layers.0.self_attn.linears.0.weight`.
    Annotated,
    /// Models that add embeddings and a generator to `torch.nn.Transformer`, with names such as
    /// `encoder.layers.0.self_attn.in_proj_weight`.
    TorchNn,
    /// BART and mBART in Hugging Face's library: Marian's names, and also
    /// `model.encoder.layernorm_embedding.weight`.
    Bart,
    /// M2M100, NLLB and Pegasus in Hugging Face's library: Marian's names, and also
    /// `model.encoder.layer_norm.weight`.
    M2m100,
    /// Marian in Hugging Face's library, with names such as
    /// `model.encoder.layers.0.self_attn.q_proj.weight`.
    Marian,
    /// T5 with gated feed-forward networks (T5 1.1, Flan-T5, mT5) in Hugging Face's library, with
    /// names such as `encoder.block.0.layer.1.DenseReluDense.wi_0.weight`.
    T5Gated,
    /// T5 in Hugging Face's library, with names such as
    /// `encoder.block.0.layer.0.SelfAttention.q.weight`.
    T5,
}

choices!(Layout, "layout", {
    Native: "native", "This program's own";
    Paper: "paper", "The paper's names, such as encoder.layers.0.self_attn.w_q";
    Labml: "labml", "labml's annotated implementation: encoder.layers.0.self_attn.query.linear";
    Annotated: "annotated", "The Annotated Transformer: encoder.layers.0.self_attn.linears.0";
    TorchNn: "torch-nn", "torch.nn.Transformer: encoder.layers.0.self_attn.in_proj_weight";
    Bart: "bart", "Hugging Face's BART and mBART: model.encoder.layernorm_embedding";
    M2m100: "m2m100", "Hugging Face's M2M100, NLLB and Pegasus: model.encoder.layer_norm";
    Marian: "marian", "Hugging Face's Marian: model.encoder.layers.0.self_attn.q_proj";
    T5Gated: "t5-gated", "T5 1.1, Flan-T5 and mT5: encoder.block.0.layer.1.DenseReluDense.wi_0";
    T5: "t5", "Hugging Face's T5: encoder.block.0.layer.0.SelfAttention.q";
});

impl Layout {
    /// Returns the end of a tensor name that tells this layout from all later layouts in
    /// [`Choice::ALL`](crate::Choice::ALL).
    ///
    /// Every whole model of this layout has such a name, and no file of a later layout has one.
    /// `None` if the names of self-attention weights are enough to tell the layouts apart.
    pub(in crate::weights) fn mark(self) -> Option<&'static str> {
        match self {
            Self::Bart => Some("coder.layernorm_embedding.weight"),
            Self::M2m100 => Some("coder.layer_norm.weight"),
            Self::T5Gated => Some(".DenseReluDense.wi_0.weight"),
            _ => None,
        }
    }

    /// Returns whether the library `transformers` ignores a tensor of this name in a file of this
    /// layout.
    pub(in crate::weights) fn ignores(self, name: &str) -> bool {
        match self {
            // Early versions of `transformers` wrote a table that cross-attention never used.
            Self::T5 | Self::T5Gated => {
                name.ends_with("EncDecAttention.relative_attention_bias.weight")
            }
            Self::Bart | Self::M2m100 | Self::Marian => {
                name.ends_with("coder.version") || name.ends_with(".embed_positions.weights")
            }
            _ => false,
        }
    }

    /// Returns whether the layout is one of Hugging Face's library, which writes a `config.json`
    /// beside the weights.
    pub fn is_hugging_face(self) -> bool {
        matches!(
            self,
            Self::Bart | Self::M2m100 | Self::Marian | Self::T5Gated | Self::T5
        )
    }

    /// Returns the number of rows before the first position in the layout's learned position
    /// tables.
    pub(in crate::weights) fn position_offset(self) -> usize {
        match self {
            Self::Bart => 2,
            _ => 0,
        }
    }
}
