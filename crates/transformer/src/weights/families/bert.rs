//! BERT of Hugging Face: an encoder alone.

use super::*;

pub(super) const FAMILY: Family = Family {
    contents: Contents::Encoder,
    rules,
    ignores: &["cls.", "embeddings.position_ids"],
    others: &[TYPES, "pooler."],
    fold,
    added,
    usual,
    hugging_face: Some(HuggingFace {
        model_types: &["bert"],
        auto_class: "AutoModel",
        neutral: &[
            "attention_probs_dropout_prob",
            "directionality",
            "initializer_range",
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
            "tie_word_embeddings",
            "type_vocab_size",
        ],
        read,
        write,
    }),
    ..PLAIN
};

const TYPES: &str = "embeddings.token_type_embeddings.weight";

fn rules() -> Rules {
    let attention = ["query", "key", "value"].map(|name| format!("attention.self.{name}"));
    Rules::new()
        .within("embeddings.", "encoder.input.")
        .same("word_embeddings.weight", "embedding.weight")
        .norm("LayerNorm", "norm")
        .within("", "")
        .positions(&["embeddings.position_embeddings.weight"], "encoder", None)
        .within("encoder.layer.{i}.", "encoder.layers.{i}.")
        .packed(
            &attention.each_ref().map(String::as_str),
            "self_attention.w_qkv",
        )
        .linear("attention.output.dense", "self_attention.w_o")
        .linear("intermediate.dense", "feed_forward.w_1")
        .linear("output.dense", "feed_forward.w_2")
        .norm("attention.output.LayerNorm", "self_attention_residual.norm")
        .norm("output.LayerNorm", "feed_forward_residual.norm")
}

/// Adds the embedding of token type 0, which most inputs have alone, to each position, and subtracts
/// it from the embeddings of all types.
fn fold(parameters: &mut Parameters, others: &mut Parameters) -> Result<(), WeightsError> {
    let types = others
        .get_mut(TYPES)
        .ok_or_else(|| WeightsError::missing([TYPES]))?;
    let name = "encoder.input.position.learned.weight";
    let positions = parameters
        .get_mut(name)
        .ok_or_else(|| WeightsError::missing([name]))?;
    let width = positions.shape()[1];
    let found = types.shape().to_vec();
    if found.len() != 2 || found[0] == 0 || found[1] != width {
        return Err(WeightsError::Shape {
            name: TYPES.into(),
            expected: vec![2, width],
            found,
        });
    }
    let first: Vec<f32> = types.iter::<f32>().take(width).collect();
    let plus = |table: &TensorData, sign: f32| {
        let values = table.iter::<f32>().zip(first.iter().cycle());
        let values: Vec<f32> = values.map(|(x, first)| x + sign * first).collect();
        TensorData::new(values, table.shape().to_vec())
    };
    *positions = plus(positions, 1.0);
    *types = plus(types, -1.0);
    Ok(())
}

/// Returns embeddings of two token types, which are zeros: the positions have that of type 0.
fn added(stacks: &Stacks) -> Parameters {
    let zeros = TensorData::zeros::<f32, _>([2, stacks.nearest().d_model]);
    Parameters::from([(TYPES.into(), zeros)])
}

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_activation(Activation::Gelu)
        .with_positions(Positions::Learned)
        .with_embedding_norm(true)
        .with_final_norm(false)
        .with_norm_epsilon(1e-12)
        .with_scale_embeddings(false)
}

const NAMES: Names = Names {
    model_type: "bert",
    class: "BertModel",
    d_model: "hidden_size",
    d_ff: "intermediate_size",
    n_layers: "num_hidden_layers",
    n_heads: "num_attention_heads",
    max_len: "max_position_embeddings",
    norm_epsilon: "layer_norm_eps",
    dropout: &["hidden_dropout_prob", "attention_probs_dropout_prob"],
    is_tied: true,
};

fn read(fields: &mut Fields, _: &str) -> Result<Described, WeightsError> {
    fields.expect(&["position_embedding_type"], json!("absolute"))?;
    fields.expect(&["is_decoder", "add_cross_attention"], json!(false))?;
    let (mut options, sizes) = NAMES.read(fields, Layout::Bert)?;
    options.activation = Some(activation::read(fields, "hidden_act", "gelu", false)?);
    options.positions = Some(Positions::Learned);
    Ok((options, sizes))
}

fn write(stacks: &Stacks) -> Value {
    let activation = activation::name_of(stacks.nearest().activation);
    NAMES.write(stacks, json!({ "hidden_act": activation }))
}
