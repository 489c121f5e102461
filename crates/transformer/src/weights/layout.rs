//! The names of the layouts.

use crate::choice::choices;

/// The names and arrangement of the parameters in a file: those of a family of models.
///
/// The names in a file are compared with those of the layouts in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// GPT-2 in Hugging Face's library, with names such as
    /// `transformer.h.0.attn.c_attn.weight`: a decoder alone.
    Gpt2,
    /// Llama in Hugging Face's library, with names such as
    /// `model.layers.0.mlp.gate_proj.weight`: a decoder alone.
    Llama,
    /// BERT in Hugging Face's library, with names such as
    /// `encoder.layer.0.attention.self.query.weight`: an encoder alone.
    Bert,
    /// Whisper in Hugging Face's library: Marian's names, and also `model.encoder.conv1.weight`.
    Whisper,
    /// BART and mBART in Hugging Face's library: Marian's names, and also
    /// `model.encoder.layernorm_embedding.weight`.
    Bart,
    /// fairseq's transformer, with names such as `encoder.layers.0.self_attn.q_proj.weight` and
    /// `decoder.output_projection.weight`.
    Fairseq,
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
    Gpt2: "gpt2", "Hugging Face's GPT-2: transformer.h.0.attn.c_attn";
    Llama: "llama", "Hugging Face's Llama: model.layers.0.mlp.gate_proj";
    Bert: "bert", "Hugging Face's BERT: encoder.layer.0.attention.self.query";
    Whisper: "whisper", "Hugging Face's Whisper: model.encoder.conv1";
    Bart: "bart", "Hugging Face's BART and mBART: model.encoder.layernorm_embedding";
    Fairseq: "fairseq", "fairseq's transformer: decoder.output_projection";
    M2m100: "m2m100", "Hugging Face's M2M100, NLLB and Pegasus: model.encoder.layer_norm";
    Marian: "marian", "Hugging Face's Marian: model.encoder.layers.0.self_attn.q_proj";
    T5Gated: "t5-gated", "T5 1.1, Flan-T5 and mT5: encoder.block.0.layer.1.DenseReluDense.wi_0";
    T5: "t5", "Hugging Face's T5: encoder.block.0.layer.0.SelfAttention.q";
});
