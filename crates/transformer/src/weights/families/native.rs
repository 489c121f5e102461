//! This crate's own names.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules,
    optional: &[
        ".cross_attention",
        ".final_norm.",
        ".input.norm.",
        "attention_position.relative.weight",
    ],
    is_own: true,
    ..PLAIN
};

fn rules() -> Rules {
    let mut rules = Rules::new().in_out();
    for name in [
        "{s}.input.embedding.weight",
        "{s}.input.position.learned.weight",
        "{s}.attention_position.relative.weight",
        "{s}.input.norm.gamma",
        "{s}.input.norm.beta",
        "{s}.final_norm.gamma",
        "{s}.final_norm.beta",
        "decoder.generator.weight",
        "decoder.generator.bias",
    ] {
        rules = rules.same(name, name);
    }
    for (stack, blocks, norms) in [
        (
            "{s}",
            &[
                "self_attention.w_qkv",
                "self_attention.w_o",
                "feed_forward.w_1",
                "feed_forward.w_2",
            ][..],
            &["self_attention", "feed_forward"][..],
        ),
        (
            "decoder",
            &[
                "cross_attention.w_q",
                "cross_attention.w_kv",
                "cross_attention.w_o",
            ],
            &["cross_attention"],
        ),
    ] {
        let layer = format!("{stack}.layers.{{i}}.");
        rules = rules.within(&layer, &layer);
        for block in blocks {
            rules = rules.linear(block, block);
        }
        for sublayer in norms {
            for end in ["gamma", "beta"] {
                let name = format!("{sublayer}_residual.norm.{end}");
                rules = rules.same(&name, &name);
            }
        }
    }
    rules
}
