//! labml's annotated implementation.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules,
    usual: |base| base.with_norm_placement(NormPlacement::Pre),
    python: code,
    ..PLAIN
};

fn rules() -> Rules {
    let queries_keys_values = [
        "self_attn.query.linear",
        "self_attn.key.linear",
        "self_attn.value.linear",
    ];
    Rules::new()
        .same("src_embed.linear.weight", "encoder.input.embedding.weight")
        .same("tgt_embed.linear.weight", "decoder.input.embedding.weight")
        .positions(&["src_embed.positional_encodings"], "encoder", Some(1))
        .positions(&["tgt_embed.positional_encodings"], "decoder", Some(1))
        .norm("{s}.norm", "{s}.final_norm")
        .linear("generator.projection", "decoder.generator")
        .within("{s}.layers.{i}.", "{s}.layers.{i}.")
        .packed(&queries_keys_values, "self_attention.w_qkv")
        .linear("self_attn.output", "self_attention.w_o")
        .linear("feed_forward.layer1", "feed_forward.w_1")
        .linear("feed_forward.layer2", "feed_forward.w_2")
        .norm("norm_self_attn", "self_attention_residual.norm")
        .norm("norm_ff", "feed_forward_residual.norm")
        .within("decoder.layers.{i}.", "decoder.layers.{i}.")
        .linear("src_attn.query.linear", "cross_attention.w_q")
        .packed(
            &["src_attn.key.linear", "src_attn.value.linear"],
            "cross_attention.w_kv",
        )
        .linear("src_attn.output", "cross_attention.w_o")
        .norm("norm_src_attn", "cross_attention_residual.norm")
}

fn code(model: &PythonModel) -> Option<String> {
    let c = &model.whole()?;
    let (d, heads, d_ff, dropout) = (c.d_model, c.n_heads, c.d_ff, c.dropout);
    let (encoders, decoders) = (c.n_encoder_layers, c.n_decoder_layers);
    let (source, target, max_len) = (c.source_vocab_size, c.target_vocab_size, c.max_len);
    let attention = format!("MultiHeadAttention({heads}, {d}, {dropout:?})");
    let activation = module_of(c.activation);
    let layer = |cross: &str| {
        format!(
            "TransformerLayer(d_model={d}, self_attn={attention}{cross}, \
             feed_forward=FeedForward({d}, {d_ff}, {dropout:?}, {activation}), \
             dropout_prob={dropout:?})"
        )
    };
    let (encoder, decoder) = (layer(""), layer(&format!(", src_attn={attention}")));
    let load = model.load(model.has_positions);
    Some(format!(
        "from safetensors.torch import load_file
from torch import nn
model = EncoderDecoder(
    Encoder({encoder}, {encoders}),
    Decoder({decoder}, {decoders}),
    EmbeddingsWithPositionalEncoding({d}, {source}, {max_len}),
    EmbeddingsWithPositionalEncoding({d}, {target}, {max_len}),
    Generator({target}, {d}),
)
{load}"
    ))
}
