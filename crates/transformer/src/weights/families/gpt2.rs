//! GPT-2 of Hugging Face: a decoder alone.

use super::*;

pub(super) const FAMILY: Family = Family {
    name: "gpt2",
    summary: "Hugging Face's GPT-2: transformer.h.0.attn.c_attn",
    contents: Contents::Decoder,
    rules,
    core: "transformer.",
    // Early versions of `transformers` wrote the causal mask.
    ignores: &[".attn.bias", ".attn.masked_bias"],
    usual,
    python: |model| hugging_face(model, Layout::Gpt2),
    hugging_face: Some(HuggingFace {
        model_types: &["gpt2"],
        auto_class: "AutoModelForCausalLM",
        neutral: &[
            "attn_pdrop",
            "embd_pdrop",
            "initializer_range",
            "n_ctx",
            "reorder_and_upcast_attn",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        ],
        read,
        write,
    }),
    ..PLAIN
};

/// Linear layers are `[in, out]` in the file, as in this crate.
fn rules() -> Rules {
    Rules::new()
        .same_as(
            &["transformer.wte.weight", "lm_head.weight"],
            "decoder.input.embedding.weight",
        )
        .positions(&["transformer.wpe.weight"], "decoder", None)
        .norm("transformer.ln_f", "decoder.final_norm")
        .generator("lm_head.weight")
        .within("transformer.h.{i}.", "decoder.layers.{i}.")
        .linear_in_out("attn.c_attn", "self_attention.w_qkv")
        .linear_in_out("attn.c_proj", "self_attention.w_o")
        .linear_in_out("mlp.c_fc", "feed_forward.w_1")
        .linear_in_out("mlp.c_proj", "feed_forward.w_2")
        .norm("ln_1", "self_attention_residual.norm")
        .norm("ln_2", "feed_forward_residual.norm")
}

fn usual(_: usize) -> TransformerConfig {
    base()
        .with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::GeluTanh)
        .with_positions(Positions::Learned)
        .with_scale_embeddings(false)
        .with_logits_bias(false)
}

fn read(fields: &mut Fields, _: &str) -> Result<(ImportOptions, Sizes), WeightsError> {
    fields.expect(&["scale_attn_weights"], json!(true))?;
    fields.expect(
        &["scale_attn_by_inverse_layer_idx", "add_cross_attention"],
        json!(false),
    )?;
    let d_model: usize = fields.required("n_embd")?;
    let n_heads: usize = fields.required("n_head")?;
    let is_tied: Option<bool> = fields.optional("tie_word_embeddings")?;
    let sizes = Sizes {
        vocab_size: fields.required("vocab_size")?,
        d_model,
        d_ff: fields
            .optional("n_inner")?
            .unwrap_or(d_model.saturating_mul(4)),
        n_decoder_layers: fields.required("n_layer")?,
        d_head: d_model / n_heads.max(1),
        ..Default::default()
    };
    let options = ImportOptions {
        layout: Some(Layout::Gpt2),
        n_heads: Some(n_heads),
        activation: Some(activation::read(
            fields,
            "activation_function",
            "gelu_new",
            false,
        )?),
        norm_epsilon: fields.optional("layer_norm_epsilon")?,
        positions: Some(Positions::Learned),
        max_len: Some(fields.required("n_positions")?),
        weight_tying: is_tied.unwrap_or(true).then_some(WeightTying::Decoder),
        pad_id: fields.optional("pad_token_id")?,
        dropout: fields.optional("resid_pdrop")?,
        ..Default::default()
    };
    Ok((options, sizes))
}

fn write(stacks: &Stacks) -> Value {
    let config = stacks.nearest();
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.target_vocab_size,
        "n_embd": config.d_model,
        "n_inner": config.d_ff,
        "n_layer": config.n_decoder_layers,
        "n_head": config.n_heads,
        "n_positions": config.max_len,
        "activation_function": activation::name_of(config.activation),
        "layer_norm_epsilon": config.norm_epsilon,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.dropout,
        "tie_word_embeddings": config.weight_tying.shares_generator(),
        "pad_token_id": config.pad_id,
    })
}
