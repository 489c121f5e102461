//! Warnings about settings that tensors do not show.

use super::layout::Layout;
use super::options::ImportOptions;
use crate::config::{PositionConfig, Positions, TransformerConfig};

/// Returns a warning about the settings that tensors do not show and `options` does not give; `None`
/// if it gives all of them.
pub(super) fn assumed(
    layout: Layout,
    config: &TransformerConfig,
    options: &ImportOptions,
) -> Option<String> {
    let family = layout.family();
    // The library of the family chooses the others.
    let is_free = |name: &str| family.hugging_face.is_none() || family.free.contains(&name);
    let given = |name: &str| match name {
        "norm_placement" => options.norm_placement.is_some() || !is_free(name),
        "activation" => options.activation.is_some(),
        "positions" => options.positions.is_some() || !is_free(name),
        "norm_epsilon" => options.norm_epsilon.is_some(),
        "scale_embeddings" => options.scale_embeddings.is_some() || !is_free(name),
        "pad_id" => options.pad_id.is_some(),
        "norm_variance" => options.norm_variance.is_some() || !family.is_own,
        "scale_attention" => !family.is_own,
        "scale_logits" => {
            let is_tied = config.weight_tying.shares_generator();
            options.scale_logits.is_some()
                || !is_tied
                || !(family.is_own || family.scales_tied_logits)
        }
        _ => {
            let is_relative = config.positions == Positions::Relative;
            options.relative_max_distance.is_some() || !is_relative
        }
    };
    let json = serde_json::to_value(config).expect("it is plain data");
    let names = [
        "norm_placement",
        "activation",
        "positions",
        "norm_epsilon",
        "scale_embeddings",
        "pad_id",
        "norm_variance",
        "scale_attention",
        "scale_logits",
        "relative_max_distance",
    ];
    let missing = names.into_iter().filter(|name| !given(name));
    let mut missing: Vec<String> = missing
        .map(|name| format!("{name} {}", json[name]))
        .collect();
    if config.positions == Positions::Rotary && options.rotary_base.is_none() {
        let base = PositionConfig::new(config.positions).rotary_base;
        missing.push(format!("rotary_base {base}"));
    }
    (!missing.is_empty()).then(|| {
        let missing = missing.join(", ").replace('"', "");
        format!("the file has no configuration of the model, so these were assumed: {missing}")
    })
}

/// Returns a warning about the settings in the file's metadata that the options replace; `None` if there
/// are none.
pub(super) fn replaced(written: &TransformerConfig, now: &TransformerConfig) -> Option<String> {
    let json = |config| serde_json::to_value(config).expect("it is plain data");
    let [written, now] = [written, now].map(json);
    let names = [
        "n_encoder_layers",
        "n_decoder_layers",
        "d_ff",
        "source_vocab_size",
        "n_heads",
        "activation",
        "norm_placement",
        "norm_variance",
        "norm_epsilon",
        "positions",
        "max_len",
        "scale_embeddings",
        "pad_id",
        "dropout",
    ];
    let differing = names.iter().filter(|name| written[**name] != now[**name]);
    let replaced = differing.map(|name| format!("{name} {} by {}", written[name], now[name]));
    let replaced: Vec<String> = replaced.collect();
    let what = || format!("settings of the file are replaced: {}", replaced.join(", "));
    (!replaced.is_empty()).then(what)
}
