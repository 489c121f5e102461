//! GPT-2 of Hugging Face: a decoder alone.

use super::*;

pub(super) const FAMILY: Family = Family {
    contents: Contents::Decoder,
    rules,
    core: "transformer.",
    // Early versions of `transformers` wrote the causal mask.
    ignores: &[".attn.bias", ".attn.masked_bias"],
    usual,
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
        .in_out()
        .within("transformer.h.{i}.", "decoder.layers.{i}.")
        .linear("attn.c_attn", "self_attention.w_qkv")
        .linear("attn.c_proj", "self_attention.w_o")
        .linear("mlp.c_fc", "feed_forward.w_1")
        .linear("mlp.c_proj", "feed_forward.w_2")
        .norm("ln_1", "self_attention_residual.norm")
        .norm("ln_2", "feed_forward_residual.norm")
}

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::GeluTanh)
        .with_positions(Positions::Learned)
        .with_scale_embeddings(false)
        .with_logits_bias(false)
}

const NAMES: Names = Names {
    model_type: "gpt2",
    class: "GPT2LMHeadModel",
    d_model: "n_embd",
    d_ff: "n_inner",
    n_layers: "n_layer",
    n_heads: "n_head",
    max_len: "n_positions",
    norm_epsilon: "layer_norm_epsilon",
    dropout: &["resid_pdrop", "embd_pdrop", "attn_pdrop"],
    is_tied: true,
};

fn read(fields: &mut Fields, _: &str) -> Result<Described, WeightsError> {
    fields.expect(&["scale_attn_weights"], json!(true))?;
    fields.expect(
        &["scale_attn_by_inverse_layer_idx", "add_cross_attention"],
        json!(false),
    )?;
    let (mut options, sizes) = NAMES.read(fields, Layout::Gpt2)?;
    let activation = activation::read(fields, "activation_function", "gelu_new", false)?;
    options.activation = Some(activation);
    options.positions = Some(Positions::Learned);
    Ok((options, sizes))
}

fn write(stacks: &Stacks) -> Value {
    let activation = activation::name_of(stacks.nearest().activation);
    NAMES.write(stacks, json!({ "activation_function": activation }))
}
