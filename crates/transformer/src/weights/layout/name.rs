//! The known layouts.

use crate::choice::choices;

/// The names and arrangement of the parameters in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// This crate's own names.
    Native,
    /// `encoder.layers.0.self_attn.w_q.weight`: models with the paper's names.
    Paper,
    /// `encoder.layers.0.self_attn.query.linear.weight`: labml's annotated implementation.
    Labml,
    /// `encoder.layers.0.self_attn.linears.0.weight`: the Annotated Transformer.
    Annotated,
    /// `encoder.layers.0.self_attn.in_proj_weight`: `torch.nn.Transformer`, with embeddings and a
    /// generator outside of it.
    TorchNn,
    /// `model.encoder.layers.0.self_attn.q_proj.weight`: Marian in Hugging Face's library.
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
