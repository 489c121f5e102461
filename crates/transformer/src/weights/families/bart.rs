//! BART and mBART of Hugging Face, and what M2M100 and Marian have in common with them.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules: || {
        layers()
            .norm("model.{s}.layer_norm", "{s}.final_norm")
            .norm("model.{s}.layernorm_embedding", "{s}.input.norm")
    },
    core: CORE,
    mark: Some("coder.layernorm_embedding.weight"),
    ignores: IGNORES,
    optional: &[".final_norm."],
    position_offset: 2,
    final_norm_is_pre: true,
    usual,
    free: &["norm_placement", "final_norm", "scale_embeddings"],
    refuses,
    hugging_face: Some(HuggingFace {
        model_types: &["bart", "mbart"],
        auto_class: "AutoModelForSeq2SeqLM",
        neutral: &[],
        read: |fields, model_type| {
            let kin = Kin {
                layout: Layout::Bart,
                positions: Positions::Learned,
                norm_placement: match model_type {
                    "mbart" => NormPlacement::Pre,
                    _ => NormPlacement::Post,
                },
                activation: "gelu",
                scale_embeddings: false,
                pad_id: 1,
            };
            read(fields, kin)
        },
        write: |stacks| match stacks.nearest().norm_placement {
            NormPlacement::Post => write(stacks, "bart", "BartForConditionalGeneration"),
            NormPlacement::Pre => write(stacks, "mbart", "MBartForConditionalGeneration"),
        },
    }),
    ..PLAIN
};

/// `BartModel` writes names without this prefix, `BartForConditionalGeneration` with it.
pub(super) const CORE: &str = "model.";

pub(super) const IGNORES: &[&str] = &["coder.version", ".embed_positions.weights"];

/// Returns the rules that BART, M2M100 and Marian have in common.
pub(super) fn layers() -> Rules {
    inner_layers()
        .embeddings("model.shared.weight", "model.{s}.embed_tokens.weight")
        .generator("lm_head.weight")
        .vector("final_logits_bias", "decoder.generator.bias", 1)
}

/// Returns the rules for positions and layers, which Whisper has, too.
pub(super) fn inner_layers() -> Rules {
    Rules::new()
        .positions(&["model.{s}.embed_positions.weight"], "{s}", None)
        .within("model.{s}.layers.{i}.", "{s}.layers.{i}.")
        .packed(
            &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            "self_attention.w_qkv",
        )
        .linear("self_attn.out_proj", "self_attention.w_o")
        .linear("fc1", "feed_forward.w_1")
        .linear("fc2", "feed_forward.w_2")
        .norm("self_attn_layer_norm", "self_attention_residual.norm")
        .norm("final_layer_norm", "feed_forward_residual.norm")
        .within("model.decoder.layers.{i}.", "decoder.layers.{i}.")
        .linear("encoder_attn.q_proj", "cross_attention.w_q")
        .packed(
            &["encoder_attn.k_proj", "encoder_attn.v_proj"],
            "cross_attention.w_kv",
        )
        .linear("encoder_attn.out_proj", "cross_attention.w_o")
        .norm("encoder_attn_layer_norm", "cross_attention_residual.norm")
        .within("", "")
}

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_activation(Activation::Gelu)
        .with_positions(Positions::Learned)
        .with_embedding_norm(true)
        .with_final_norm(false)
        .with_scale_embeddings(false)
        .with_weight_tying(WeightTying::All)
        .with_pad_id(1)
}

/// BART, which is post-norm, has no final norm. mBART, which is pre-norm, has one.
pub(super) fn refuses(config: &TransformerConfig, _: Contents) -> Option<&'static str> {
    let is_pre = config.norm_placement == NormPlacement::Pre;
    (config.final_norm != is_pre).then_some("final_norm")
}

/// What the models differ in that have the fields of BART, and usual values of fields.
pub(super) struct Kin {
    pub layout: Layout,
    pub positions: Positions,
    pub norm_placement: NormPlacement,
    pub activation: &'static str,
    pub scale_embeddings: bool,
    pub pad_id: u32,
}

/// Reads the `config.json` of BART or one of its relatives.
pub(super) fn read(fields: &mut Fields, kin: Kin) -> Result<Described, WeightsError> {
    // In early versions of `transformers`, these fields chose between BART and its relatives, so
    // their values must be those of `model_type`.
    let is_pre = kin.norm_placement == NormPlacement::Pre;
    fields.expect(&["normalize_before", "add_final_layer_norm"], json!(is_pre))?;
    let has_norm = kin.positions == Positions::Learned;
    fields.expect(&["normalize_embedding"], json!(has_norm))?;
    let is_fixed = kin.positions == Positions::SinusoidalHalves;
    fields.expect(&["static_position_embeddings"], json!(is_fixed))?;
    fields.expect(&["add_bias_logits"], json!(false))?;
    fields.expect(
        &["tie_word_embeddings", "share_encoder_decoder_embeddings"],
        json!(true),
    )?;
    fields.expect(&["is_encoder_decoder"], json!(true))?;
    let n_heads: usize = fields.required("encoder_attention_heads")?;
    fields.expect(
        &["decoder_attention_heads", "num_attention_heads"],
        json!(n_heads),
    )?;
    let d_ff: usize = fields.required("encoder_ffn_dim")?;
    fields.expect(&["decoder_ffn_dim"], json!(d_ff))?;
    let activation = activation::read(fields, "activation_function", kin.activation, false)?;
    let d_model: usize = fields.required("d_model")?;
    fields.expect(&["hidden_size"], json!(d_model))?;
    let max_len: usize = fields.required("max_position_embeddings")?;
    let is_scaled = fields.flag("scale_embedding")?;
    let vocab_size: usize = fields.required("vocab_size")?;
    fields.expect(&["decoder_vocab_size"], json!(vocab_size))?;
    let n_encoder_layers: usize = fields.required("encoder_layers")?;
    fields.expect(&["num_hidden_layers"], json!(n_encoder_layers))?;
    let sizes = Sizes {
        vocab_size,
        d_model,
        d_ff,
        n_encoder_layers,
        n_decoder_layers: fields.required("decoder_layers")?,
        d_head: d_model / n_heads.max(1),
        ..Default::default()
    };
    let options = ImportOptions {
        layout: Some(kin.layout),
        n_heads: Some(n_heads),
        activation: Some(activation),
        norm_placement: Some(kin.norm_placement),
        positions: Some(kin.positions),
        max_len: Some(max_len),
        scale_embeddings: Some(is_scaled.unwrap_or(kin.scale_embeddings)),
        pad_id: Some(fields.optional("pad_token_id")?.unwrap_or(kin.pad_id)),
        dropout: fields.optional("dropout")?,
        ..Default::default()
    };
    Ok((options, sizes))
}

/// Returns the fields of `config.json` for BART and its relatives.
pub(super) fn write(stacks: &Stacks, model_type: &str, class: &str) -> Value {
    let config = stacks.nearest();
    json!({
        "model_type": model_type,
        "architectures": [class],
        "is_encoder_decoder": true,
        "vocab_size": config.source_vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_len,
        "activation_function": activation::name_of(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.dropout,
        "activation_dropout": config.dropout,
        "scale_embedding": config.scale_embeddings,
        // Other programs read it, such as CTranslate2.
        "normalize_before": config.norm_placement == NormPlacement::Pre,
        "pad_token_id": config.pad_id,
    })
}
