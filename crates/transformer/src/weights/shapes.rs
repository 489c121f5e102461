//! The shapes of a model's parameters, computed from its configuration.

use crate::config::{NormKind, Positions, TransformerConfig};

/// Returns the names and shapes of the parameters of a model, or of one of its stacks.
///
/// `has` is `[has_encoder, has_decoder]`. Names begin with `encoder.` or `decoder.`, even if there
/// is only one stack.
pub(super) fn shapes(config: &TransformerConfig, has: [bool; 2]) -> Vec<(String, Vec<usize>)> {
    let (d, f) = (config.d_model, config.d_ff);
    let inner = if config.activation.is_gated() {
        2 * f
    } else {
        f
    };
    let attention = config.decoder().layer.attention;
    let [h, g] = [attention.n_heads, attention.kv_heads()].map(|heads| heads * attention.d_head());
    let mut all = Vec::new();
    let linear = |all: &mut Vec<_>, name: String, input, output| {
        all.push((format!("{name}.weight"), vec![input, output]));
        if config.biases {
            all.push((format!("{name}.bias"), vec![output]));
        }
    };
    let norm = |all: &mut Vec<_>, name: String| {
        all.push((format!("{name}.gamma"), vec![d]));
        if config.norm == NormKind::Layer {
            all.push((format!("{name}.beta"), vec![d]));
        }
    };
    let stacks = [
        ("encoder", config.n_encoder_layers, config.source_vocab_size),
        ("decoder", config.n_decoder_layers, config.target_vocab_size),
    ];
    for (index, (stack, n_layers, vocab_size)) in stacks.into_iter().enumerate() {
        if !has[index] {
            continue;
        }
        let is_decoder = index == 1;
        if is_decoder || !config.weight_tying.shares_source() {
            all.push((
                format!("{stack}.input.embedding.weight"),
                vec![vocab_size, d],
            ));
        }
        if config.positions == Positions::Learned {
            let name = format!("{stack}.input.position.learned.weight");
            all.push((name, vec![config.max_len, d]));
        }
        if config.positions == Positions::Relative {
            let name = format!("{stack}.attention_position.relative.weight");
            all.push((name, vec![config.relative_buckets, config.n_heads]));
        }
        if config.embedding_norm {
            norm(&mut all, format!("{stack}.input.norm"));
        }
        for layer in (0..n_layers).map(|layer| format!("{stack}.layers.{layer}")) {
            linear(
                &mut all,
                format!("{layer}.self_attention.w_qkv"),
                d,
                h + 2 * g,
            );
            linear(&mut all, format!("{layer}.self_attention.w_o"), h, d);
            norm(&mut all, format!("{layer}.self_attention_residual.norm"));
            if is_decoder {
                linear(&mut all, format!("{layer}.cross_attention.w_q"), d, h);
                linear(&mut all, format!("{layer}.cross_attention.w_kv"), d, 2 * g);
                linear(&mut all, format!("{layer}.cross_attention.w_o"), h, d);
                norm(&mut all, format!("{layer}.cross_attention_residual.norm"));
            }
            linear(&mut all, format!("{layer}.feed_forward.w_1"), d, inner);
            linear(&mut all, format!("{layer}.feed_forward.w_2"), f, d);
            norm(&mut all, format!("{layer}.feed_forward_residual.norm"));
        }
        if config.final_norm {
            norm(&mut all, format!("{stack}.final_norm"));
        }
    }
    if has[1] {
        let vocab_size = config.target_vocab_size;
        if !config.weight_tying.shares_generator() {
            all.push(("decoder.generator.weight".into(), vec![d, vocab_size]));
        }
        if config.logits_bias {
            all.push(("decoder.generator.bias".into(), vec![vocab_size]));
        }
    }
    all
}
