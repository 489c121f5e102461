//! The Annotated Transformer.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules,
    usual,
    python: code,
    ..PLAIN
};

fn rules() -> Rules {
    let queries_keys_values = [0, 1, 2].map(|index| format!("self_attn.linears.{index}"));
    let queries_keys_values = queries_keys_values.each_ref().map(String::as_str);
    Rules::new()
        .with_norm_names("a_2", "b_2")
        .same("src_embed.0.lut.weight", "encoder.input.embedding.weight")
        .same("tgt_embed.0.lut.weight", "decoder.input.embedding.weight")
        .positions(&["src_embed.1.pe"], "encoder", Some(0))
        .positions(&["tgt_embed.1.pe"], "decoder", Some(0))
        .norm("{s}.norm", "{s}.final_norm")
        .linear("generator.proj", "decoder.generator")
        .within("{s}.layers.{i}.", "{s}.layers.{i}.")
        .packed(&queries_keys_values, "self_attention.w_qkv")
        .linear("self_attn.linears.3", "self_attention.w_o")
        .linear("feed_forward.w_1", "feed_forward.w_1")
        .linear("feed_forward.w_2", "feed_forward.w_2")
        .norm("sublayer.0.norm", "self_attention_residual.norm")
        .within("encoder.layers.{i}.", "encoder.layers.{i}.")
        .norm("sublayer.1.norm", "feed_forward_residual.norm")
        .within("decoder.layers.{i}.", "decoder.layers.{i}.")
        .linear("src_attn.linears.0", "cross_attention.w_q")
        .packed(
            &["src_attn.linears.1", "src_attn.linears.2"],
            "cross_attention.w_kv",
        )
        .linear("src_attn.linears.3", "cross_attention.w_o")
        .norm("sublayer.1.norm", "cross_attention_residual.norm")
        .norm("sublayer.2.norm", "feed_forward_residual.norm")
}

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_norm_placement(NormPlacement::Pre)
        .with_norm_variance(NormVariance::Unbiased)
        // The Annotated Transformer adds 1e-6 to the standard deviation, this crate ε to the
        // variance. An ε of 2e-6 has the same effect where the standard deviation is 1.
        .with_norm_epsilon(2e-6)
}

fn code(model: &PythonModel) -> Option<String> {
    let c = &model.whole()?;
    let (source, target, d, d_ff) = (c.source_vocab_size, c.target_vocab_size, c.d_model, c.d_ff);
    let (heads, dropout, max_len) = (c.n_heads, c.dropout, c.max_len);
    let (encoders, decoders) = (c.n_encoder_layers, c.n_decoder_layers);
    let mut changes = String::new();
    let mut change = |is_needed: bool, what: String| {
        if is_needed {
            changes += &format!("# in the class: {what}\n");
        }
    };
    change(decoders != encoders, format!("Decoder(.., N={decoders})"));
    let what = format!(
        "{} instead of relu in PositionwiseFeedForward",
        c.activation
    );
    change(c.activation != Activation::Relu, what);
    let what = format!("PositionalEncoding(.., max_len={max_len})");
    change(model.has_positions && max_len != 5000, what);
    let load = model.load(model.has_positions);
    Some(format!(
        "from safetensors.torch import load_file\n\
         model = make_model({source}, {target}, N={encoders}, d_model={d}, \
         d_ff={d_ff}, h={heads}, dropout={dropout:?})\n{changes}{load}"
    ))
}
