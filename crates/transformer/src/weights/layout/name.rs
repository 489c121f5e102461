//! The known layouts.

use crate::choice::choices;

/// The names and arrangement of the parameters in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// This crate's own names.
    Native,
    /// Models with the paper's names, such as `encoder.layers.0.self_attn.w_q.weight`.
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
    /// Marian in Hugging Face's library, with names such as
    /// `model.encoder.layers.0.self_attn.q_proj.weight`.
    Marian,
}

choices!(Layout, "layout", {
    Native: "native", "This program's own";
    Paper: "paper", "encoder.layers.0.self_attn.w_q: models with the paper's names";
    Labml: "labml", "encoder.layers.0.self_attn.query.linear: labml's annotated implementation";
    Annotated: "annotated", "encoder.layers.0.self_attn.linears.0: the Annotated Transformer";
    TorchNn: "torch-nn", "encoder.layers.0.self_attn.in_proj_weight: torch.nn.Transformer";
    Marian: "marian", "model.encoder.layers.0.self_attn.q_proj: Marian of Hugging Face";
});
