//! Llama of Hugging Face: a decoder alone.

use serde::Deserialize;

use super::*;

pub(super) const FAMILY: Family = Family {
    name: "llama",
    summary: "Hugging Face's Llama: model.layers.0.mlp.gate_proj",
    contents: Contents::Decoder,
    rules,
    core: "model.",
    mark: Some(".mlp.gate_proj.weight"),
    ignores: &[".rotary_emb.inv_freq"],
    usual,
    free: &["norm_epsilon", "weight_tying", "d_kv", "n_kv_heads"],
    refuses: |config, _| (config.activation != Activation::Swiglu).then_some("activation"),
    python: |model| hugging_face(model, Layout::Llama),
    hugging_face: Some(HuggingFace {
        model_types: &["llama"],
        auto_class: "AutoModelForCausalLM",
        neutral: &["initializer_range", "pretraining_tp"],
        read,
        write,
    }),
    ..PLAIN
};

fn rules() -> Rules {
    Rules::new()
        .same_as(
            &["model.embed_tokens.weight", "lm_head.weight"],
            "decoder.input.embedding.weight",
        )
        .norm("model.norm", "decoder.final_norm")
        .generator("lm_head.weight")
        .within("model.layers.{i}.", "decoder.layers.{i}.")
        .packed(
            &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            "self_attention.w_qkv",
        )
        .linear("self_attn.o_proj", "self_attention.w_o")
        .packed(&["mlp.gate_proj", "mlp.up_proj"], "feed_forward.w_1")
        .linear("mlp.down_proj", "feed_forward.w_2")
        .norm("input_layernorm", "self_attention_residual.norm")
        .norm("post_attention_layernorm", "feed_forward_residual.norm")
}

fn usual(_: usize) -> TransformerConfig {
    base()
        .with_norm_placement(NormPlacement::Pre)
        .with_norm(NormKind::Rms)
        .with_norm_epsilon(1e-6)
        .with_activation(Activation::Swiglu)
        .with_positions(Positions::Rotary)
        .with_biases(false)
        .with_logits_bias(false)
        .with_scale_embeddings(false)
}

/// The field `rope_parameters`, which version 5 of the library `transformers` writes.
#[derive(Default, Deserialize)]
struct Rope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    #[serde(flatten)]
    others: serde_json::Map<String, Value>,
}

fn read(fields: &mut Fields, _: &str) -> Result<(ImportOptions, Sizes), WeightsError> {
    fields.expect(&["attention_bias", "mlp_bias"], json!(false))?;
    fields.expect(&["hidden_act"], json!("silu"))?;
    fields.expect(&["rope_scaling"], Value::Null)?;
    let rope: Option<Value> = fields.optional("rope_parameters")?;
    let Rope {
        rope_theta,
        rope_type,
        others,
    } = match &rope {
        Some(rope) => serde_json::from_value(rope.clone())
            .map_err(|_| fields.refuse("rope_parameters", rope, &"an object with rope_theta"))?,
        None => Rope::default(),
    };
    if let Some(rope) = rope
        && (rope_type.is_some_and(|kind| kind != "default") || !others.is_empty())
    {
        return Err(fields.refuse("rope_parameters", &rope, &"the rope_type default"));
    }
    let older: Option<f64> = fields.optional("rope_theta")?;
    let d_model: usize = fields.required("hidden_size")?;
    let n_heads: usize = fields.required("num_attention_heads")?;
    let d_head: Option<usize> = fields.optional("head_dim")?;
    let is_tied: Option<bool> = fields.optional("tie_word_embeddings")?;
    let sizes = Sizes {
        vocab_size: fields.required("vocab_size")?,
        d_model,
        d_ff: fields.required("intermediate_size")?,
        n_decoder_layers: fields.required("num_hidden_layers")?,
        d_head: d_head.unwrap_or(d_model / n_heads.max(1)),
        n_kv_heads: fields.optional("num_key_value_heads")?.or(Some(n_heads)),
        ..Default::default()
    };
    let options = ImportOptions {
        layout: Some(Layout::Llama),
        n_heads: Some(n_heads),
        norm_epsilon: fields.optional("rms_norm_eps")?,
        max_len: Some(fields.required("max_position_embeddings")?),
        rotary_base: rope_theta.or(older),
        weight_tying: is_tied.unwrap_or(false).then_some(WeightTying::Decoder),
        pad_id: fields.optional("pad_token_id")?,
        ..Default::default()
    };
    Ok((options, sizes))
}

fn write(stacks: &Stacks) -> Value {
    let config = stacks.nearest();
    let positions = stacks
        .decoder
        .as_ref()
        .map(|decoder| &decoder.input.positions);
    json!({
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": config.target_vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_decoder_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads.unwrap_or(config.n_heads),
        "head_dim": config.d_head(),
        "hidden_act": "silu",
        "max_position_embeddings": config.max_len,
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": positions.map(|positions| positions.rotary_base),
        "attention_dropout": config.dropout,
        "tie_word_embeddings": config.weight_tying.shares_generator(),
        "pad_token_id": config.pad_id,
    })
}
