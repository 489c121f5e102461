//! Whisper of Hugging Face: an encoder of the vectors that two convolutions make of sound, and a
//! decoder of text.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules: || {
        bart::inner_layers()
            .same_as(
                &["model.decoder.embed_tokens.weight", "proj_out.weight"],
                "decoder.input.embedding.weight",
            )
            .norm("model.{s}.layer_norm", "{s}.final_norm")
            .generator("proj_out.weight")
    },
    core: bart::CORE,
    mark: Some("coder.conv1.weight"),
    vectors_of: Some("sound"),
    others: &["encoder.conv"],
    fold: check,
    // Keys have none in Whisper: each query would add the same to all of its scores.
    optional: &[".k_proj.bias"],
    usual,
    hugging_face: Some(HuggingFace {
        model_types: &["whisper"],
        auto_class: "AutoModelForSpeechSeq2Seq",
        neutral: &[
            "apply_spec_augment",
            "begin_suppress_tokens",
            "classifier_proj_size",
            "forced_decoder_ids",
            "mask_feature_length",
            "mask_feature_min_masks",
            "mask_feature_prob",
            "mask_time_length",
            "mask_time_min_masks",
            "mask_time_prob",
            "median_filter_width",
            "suppress_tokens",
            "use_weighted_layer_sum",
        ],
        read,
        write: |_| Value::Null,
    }),
    ..PLAIN
};

/// The encoder has no embedding table, as if it shared the decoder's.
fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::Gelu)
        .with_positions(Positions::Learned)
        .with_scale_embeddings(false)
        .with_logits_bias(false)
        .with_weight_tying(WeightTying::All)
}

/// Checks that the convolutions are there, and that their outputs are as wide as the encoder.
fn check(parameters: &mut Parameters, others: &mut Parameters) -> Result<(), WeightsError> {
    let table = "encoder.input.position.learned.weight";
    let missing = |name: &str| WeightsError::missing([name]);
    let table = parameters.get(table).ok_or_else(|| missing(table))?;
    let width = table.shape()[1];
    for (name, inputs) in [("encoder.conv1", None), ("encoder.conv2", Some(width))] {
        for (end, rank) in [("weight", 3), ("bias", 1)] {
            let name = format!("{name}.{end}");
            let tensor = others.get(&name).ok_or_else(|| missing(&name))?;
            let found = tensor.shape().to_vec();
            let inputs = inputs.or(found.get(1).copied()).unwrap_or(width);
            let expected = [width, inputs, 3][..rank].to_vec();
            if found != expected {
                return Err(WeightsError::Shape {
                    name,
                    expected,
                    found,
                });
            }
        }
    }
    Ok(())
}

fn read(fields: &mut Fields, _: &str) -> Result<Described, WeightsError> {
    fields.expect(&["scale_embedding"], json!(false))?;
    fields.expect(&["is_encoder_decoder"], json!(true))?;
    let activation = activation::read(fields, "activation_function", "gelu", false)?;
    let d_model: usize = fields.required("d_model")?;
    let n_heads = fields.required("encoder_attention_heads")?;
    let n_decoder_heads: usize = fields.required("decoder_attention_heads")?;
    let is_tied: Option<bool> = fields.optional("tie_word_embeddings")?;
    let sizes = Sizes {
        vocab_size: fields.required("vocab_size")?,
        d_model,
        d_ff: fields.required("decoder_ffn_dim")?,
        encoder_d_ff: Some(fields.required("encoder_ffn_dim")?),
        n_encoder_layers: fields.required("encoder_layers")?,
        n_decoder_layers: fields.required("decoder_layers")?,
        d_head: d_model / n_decoder_heads.max(1),
        mel_bins: fields.optional("num_mel_bins")?,
        max_lens: Some([
            fields.required("max_source_positions")?,
            fields.required("max_target_positions")?,
        ]),
        ..Default::default()
    };
    let options = ImportOptions {
        layout: Some(Layout::Whisper),
        n_heads: Some(n_heads),
        n_decoder_heads: Some(n_decoder_heads),
        activation: Some(activation),
        positions: Some(Positions::Learned),
        weight_tying: is_tied.unwrap_or(true).then_some(WeightTying::All),
        pad_id: fields.optional("pad_token_id")?,
        dropout: fields.optional("dropout")?,
        ..Default::default()
    };
    Ok((options, sizes))
}
