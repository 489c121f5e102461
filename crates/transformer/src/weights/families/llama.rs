//! Llama of Hugging Face: a decoder alone.

use serde::Deserialize;

use super::*;

pub(super) const FAMILY: Family = Family {
    contents: Contents::Decoder,
    rules,
    core: "model.",
    mark: Some(".mlp.gate_proj.weight"),
    ignores: &[".rotary_emb.inv_freq"],
    usual,
    free: &["norm_epsilon", "weight_tying", "d_kv", "n_kv_heads"],
    refuses: |config, _| (config.activation != Activation::Swiglu).then_some("activation"),
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

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_norm_placement(NormPlacement::Pre)
        .with_norm(NormKind::Rms)
        .with_norm_epsilon(1e-6)
        .with_activation(Activation::Swiglu)
        .with_positions(Positions::Rotary)
        .with_biases(false)
        .with_logits_bias(false)
        .with_scale_embeddings(false)
}

const NAMES: Names = Names {
    model_type: "llama",
    class: "LlamaForCausalLM",
    d_model: "hidden_size",
    d_ff: "intermediate_size",
    n_layers: "num_hidden_layers",
    n_heads: "num_attention_heads",
    max_len: "max_position_embeddings",
    norm_epsilon: "rms_norm_eps",
    dropout: &[],
    is_tied: false,
};

/// The field `rope_parameters`, which version 5 of the library `transformers` writes.
#[derive(Default, Deserialize)]
struct Rope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    #[serde(flatten)]
    others: serde_json::Map<String, Value>,
}

fn read(fields: &mut Fields, _: &str) -> Result<Described, WeightsError> {
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
    let (mut options, mut sizes) = NAMES.read(fields, Layout::Llama)?;
    options.rotary_base = rope_theta.or(older);
    sizes.d_head = fields.optional("head_dim")?.unwrap_or(sizes.d_head);
    sizes.n_kv_heads = fields.optional("num_key_value_heads")?;
    Ok((options, sizes))
}

fn write(stacks: &Stacks) -> Value {
    let config = stacks.nearest();
    let decoder = stacks.decoder.as_ref();
    let others = json!({
        "num_key_value_heads": config.n_kv_heads.unwrap_or(config.n_heads),
        "head_dim": config.d_head(),
        "hidden_act": "silu",
        "rope_theta": decoder.map(|decoder| decoder.input.positions.rotary_base),
    });
    NAMES.write(stacks, others)
}
