//! fairseq's `transformer`: Marian's names without `model.`, and sinusoidal positions of its own.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules,
    mark: Some("coder.output_projection.weight"),
    ignores: &["coder.version", FLOAT],
    added,
    optional: &[".final_norm."],
    position_offset: 2,
    computes_positions: true,
    final_norm_is_pre: true,
    usual,
    free: &[
        "norm_placement",
        "final_norm",
        "positions",
        "scale_embeddings",
        "weight_tying",
    ],
    refuses,
    ..PLAIN
};

/// A tensor of computed positions that only shows their number format.
const FLOAT: &str = ".embed_positions._float_tensor";

fn rules() -> Rules {
    let mut rules = bart::inner_layers()
        .same("{s}.embed_tokens.weight", "{s}.input.embedding.weight")
        .norm("{s}.layer_norm", "{s}.final_norm")
        .generator("decoder.output_projection.weight");
    for name in rules.all.iter_mut().flat_map(|rule| &mut rule.theirs) {
        *name = name.replace(bart::CORE, "");
    }
    rules
}

fn added(stacks: &Stacks) -> Parameters {
    let is_computed = stacks.nearest().positions != Positions::Learned;
    let number = |value: f32| TensorData::new(vec![value], [1]);
    let mut added = Parameters::new();
    for stack in ["encoder", "decoder"] {
        added.insert(format!("{stack}.version"), number(3.0));
        if is_computed {
            added.insert(format!("{stack}{FLOAT}"), number(0.0));
        }
    }
    added
}

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_positions(Positions::SinusoidalFairseq)
        .with_max_len(1024)
        .with_final_norm(false)
        .with_logits_bias(false)
        .with_pad_id(1)
}

/// An encoder alone has no name that tells it from Marian's.
fn refuses(config: &TransformerConfig, contents: Contents) -> Option<&'static str> {
    match config.positions {
        _ if contents != Contents::Model => Some("stacks"),
        Positions::SinusoidalFairseq | Positions::Learned => bart::refuses(config, contents),
        _ => Some("positions"),
    }
}
