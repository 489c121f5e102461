//! T5 of Hugging Face, with plain and with gated feed-forward networks (T5 1.1, Flan-T5, mT5).

use super::*;

pub(super) const FAMILY: Family = Family {
    rules: || {
        layers()
            .within(
                "encoder.block.{i}.layer.1.DenseReluDense.",
                "encoder.layers.{i}.",
            )
            .linear("wi", "feed_forward.w_1")
            .within(
                "decoder.block.{i}.layer.2.DenseReluDense.",
                "decoder.layers.{i}.",
            )
            .linear("wi", "feed_forward.w_1")
    },
    // Early versions of `transformers` wrote a table that cross-attention never used.
    ignores: &["EncDecAttention.relative_attention_bias.weight"],
    scales_tied_logits: true,
    usual: |base| {
        usual(base)
            .with_weight_tying(WeightTying::All)
            .with_scale_logits(true)
    },
    free: &["norm_epsilon", "d_kv", "scale_logits", "weight_tying"],
    refuses,
    hugging_face: Some(HuggingFace {
        model_types: &["t5", "mt5"],
        auto_class: "AutoModelForSeq2SeqLM",
        neutral: &[],
        read,
        write,
    }),
    ..PLAIN
};

pub(super) const GATED: Family = Family {
    rules: || {
        layers()
            .within(
                "encoder.block.{i}.layer.1.DenseReluDense.",
                "encoder.layers.{i}.",
            )
            .packed(&["wi_0", "wi_1"], "feed_forward.w_1")
            .within(
                "decoder.block.{i}.layer.2.DenseReluDense.",
                "decoder.layers.{i}.",
            )
            .packed(&["wi_0", "wi_1"], "feed_forward.w_1")
    },
    mark: Some(".DenseReluDense.wi_0.weight"),
    usual: |base| {
        usual(base)
            .with_activation(Activation::GegluTanh)
            .with_weight_tying(WeightTying::Embeddings)
    },
    ..FAMILY
};

/// Returns the rules that plain and gated T5 have in common.
fn layers() -> Rules {
    let queries_keys_values = [
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
    ];
    Rules::new()
        .embeddings("shared.weight", "{s}.embed_tokens.weight")
        .generator("lm_head.weight")
        .norm("{s}.final_layer_norm", "{s}.final_norm")
        .same(
            "{s}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "{s}.attention_position.relative.weight",
        )
        .within("{s}.block.{i}.", "{s}.layers.{i}.")
        .packed(&queries_keys_values, "self_attention.w_qkv")
        .linear("layer.0.SelfAttention.o", "self_attention.w_o")
        .norm("layer.0.layer_norm", "self_attention_residual.norm")
        .within("encoder.block.{i}.layer.1.", "encoder.layers.{i}.")
        .linear("DenseReluDense.wo", "feed_forward.w_2")
        .norm("layer_norm", "feed_forward_residual.norm")
        .within("decoder.block.{i}.layer.1.", "decoder.layers.{i}.")
        .linear("EncDecAttention.q", "cross_attention.w_q")
        .packed(
            &["EncDecAttention.k", "EncDecAttention.v"],
            "cross_attention.w_kv",
        )
        .linear("EncDecAttention.o", "cross_attention.w_o")
        .norm("layer_norm", "cross_attention_residual.norm")
        .within("decoder.block.{i}.layer.2.", "decoder.layers.{i}.")
        .linear("DenseReluDense.wo", "feed_forward.w_2")
        .norm("layer_norm", "feed_forward_residual.norm")
}

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_norm_placement(NormPlacement::Pre)
        .with_norm(NormKind::Rms)
        .with_norm_epsilon(1e-6)
        .with_positions(Positions::Relative)
        .with_biases(false)
        .with_logits_bias(false)
        .with_scale_attention(false)
        .with_scale_embeddings(false)
}

/// Both stacks share one embedding table, and `config.json` has no name for some activations.
fn refuses(config: &TransformerConfig, _: Contents) -> Option<&'static str> {
    if activation::name_of(config.activation).is_none() {
        return Some("activation");
    }
    (!config.weight_tying.shares_source()).then_some("weight_tying")
}

fn read(fields: &mut Fields, model_type: &str) -> Result<Described, WeightsError> {
    let usual = match model_type {
        "mt5" => "gated-gelu",
        _ => "relu",
    };
    let activation = activation::read(fields, "feed_forward_proj", usual, true)?;
    // The library `transformers` prefers these fields.
    activation::expect(fields, "dense_act_fn", activation)?;
    fields.expect(&["is_gated_act"], json!(activation.is_gated()))?;
    let layout = if activation.is_gated() {
        Layout::T5Gated
    } else {
        Layout::T5
    };
    // T5, but not mT5, scales the logits if the embeddings are tied. Since version 5, the library
    // `transformers` writes a separate field, `scale_decoder_outputs`.
    let is_tied: Option<bool> = fields.optional("tie_word_embeddings")?;
    let is_scaled = fields.flag("scale_decoder_outputs")?;
    let is_scaled = is_scaled.unwrap_or(is_tied != Some(false)) && model_type == "t5";
    fields.expect(&["is_encoder_decoder"], json!(true))?;
    let n_encoder_layers: usize = fields.required("num_layers")?;
    let n_heads: usize = fields.required("num_heads")?;
    let (d_model, d_head): (usize, usize) = (fields.required("d_model")?, fields.required("d_kv")?);
    // Other names of the same fields, which it prefers, too.
    for (name, value) in [
        ("num_hidden_layers", n_encoder_layers),
        ("num_attention_heads", n_heads),
        ("hidden_size", d_model),
        ("head_dim", d_head),
    ] {
        fields.expect(&[name], json!(value))?;
    }
    let buckets: Option<usize> = fields.optional("relative_attention_num_buckets")?;
    let sizes = Sizes {
        vocab_size: fields.required("vocab_size")?,
        d_model,
        d_ff: fields.required("d_ff")?,
        n_encoder_layers,
        n_decoder_layers: fields
            .optional("num_decoder_layers")?
            .unwrap_or(n_encoder_layers),
        d_head,
        relative_buckets: Some(buckets.unwrap_or(32)),
        ..Default::default()
    };
    let max_distance = fields.optional("relative_attention_max_distance")?;
    let options = ImportOptions {
        layout: Some(layout),
        n_heads: Some(n_heads),
        activation: Some(activation),
        norm_epsilon: fields.optional("layer_norm_epsilon")?,
        relative_max_distance: Some(max_distance.unwrap_or(128)),
        scale_logits: Some(is_scaled),
        pad_id: Some(fields.optional("pad_token_id")?.unwrap_or(0)),
        dropout: fields.optional("dropout_rate")?,
        ..Default::default()
    };
    Ok((options, sizes))
}

fn write(stacks: &Stacks) -> Value {
    let config = stacks.nearest();
    json!({
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": true,
        "vocab_size": config.target_vocab_size,
        "d_model": config.d_model,
        "d_kv": config.d_head(),
        "d_ff": config.d_ff,
        "num_heads": config.n_heads,
        "num_layers": config.n_encoder_layers,
        "num_decoder_layers": config.n_decoder_layers,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_max_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.norm_epsilon,
        "feed_forward_proj": activation::name_of(config.activation),
        "tie_word_embeddings": config.scale_logits,
        "pad_token_id": config.pad_id,
    })
}
