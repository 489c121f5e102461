//! Expansion of a layout's rules to the stacks and layers of a model.

use super::layout::Layout;
use super::rule::Rule;

/// Returns the rules of a layout for a model with the given numbers of layers.
///
/// `n_layers` holds the numbers of encoder and decoder layers; 0 means that the model lacks the
/// stack. If `is_bare`, `encoder.` and `decoder.` are removed from the names in the layout, as in
/// files of a single stack.
pub(super) fn expand(layout: Layout, n_layers: [usize; 2], is_bare: bool) -> Vec<Rule> {
    let mut all = Vec::new();
    let family = layout.family();
    for rule in (family.rules)().all {
        for (stack, n_layers) in ["encoder", "decoder"].into_iter().zip(n_layers) {
            let in_stack = |rule: &Rule| rule.ours.starts_with(&format!("{stack}."));
            let of = rule.of(stack, 0);
            if n_layers == 0 || !in_stack(&of) {
                continue;
            }
            if rule.ours.contains("{i}") {
                all.extend((0..n_layers).map(|layer| rule.of(stack, layer)));
            } else {
                all.push(of);
            }
        }
    }
    if is_bare {
        for name in all.iter_mut().flat_map(|rule| &mut rule.theirs) {
            *name = bare(name, family.core);
        }
    }
    all
}

/// Returns a name without `encoder.` or `decoder.`. The prefix `core` before them stays.
fn bare(name: &str, core: &str) -> String {
    for before in ["", core] {
        for stack in ["encoder.", "decoder."] {
            let rest = name.strip_prefix(before);
            if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(stack)) {
                return format!("{before}{rest}");
            }
        }
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::choice::Choice;
    use crate::config::{Activation, NormKind, Positions, TransformerConfig, WeightTying};
    use crate::weights::parameters;
    use crate::weights::rule::Part;
    use crate::weights::stacks::Stacks;

    #[test]
    fn shapes_are_those_of_a_built_model() {
        let small = TransformerConfig::new(7, 7)
            .with_d_model(8)
            .with_n_heads(2)
            .with_d_ff(6)
            .with_max_len(5)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(2);
        let own = |config: &TransformerConfig| {
            let model = config.init(&Device::flex()).unwrap();
            parameters::shapes(&model)
        };
        for config in [
            small.clone(),
            small.clone().with_positions(Positions::Learned),
            small.clone().with_weight_tying(WeightTying::Decoder),
            small.clone().with_weight_tying(WeightTying::Embeddings),
            small.clone().with_weight_tying(WeightTying::All),
            small.clone().with_activation(Activation::Swiglu),
            small.clone().with_final_norm(false),
            small.clone().with_embedding_norm(true),
            small
                .clone()
                .with_d_kv(Some(3))
                .with_n_kv_heads(Some(1))
                .with_biases(false)
                .with_logits_bias(false)
                .with_norm(NormKind::Rms)
                .with_positions(Positions::Relative),
        ] {
            assert_eq!(Stacks::from(&config).shapes(), own(&config), "{config:?}");
        }
    }

    #[test]
    fn each_layout_has_rules_for_every_part_of_every_parameter() {
        for &layout in Layout::ALL {
            let config = layout
                .family()
                .usual_with(7)
                .with_weight_tying(WeightTying::None)
                .with_n_encoder_layers(2)
                .with_n_decoder_layers(1);
            let rules = expand(layout, [2, 1], false);
            for (name, shape) in layout.family().stacks(&config).shapes() {
                let rules: Vec<_> = rules.iter().filter(|rule| rule.ours == name).collect();
                let parts = rules.first().map_or(1, |rule| rule.our_part.of);
                let mut covered = vec![0; parts];
                for rule in &rules {
                    assert_eq!(rule.our_part.of, parts, "{layout}: {name}");
                    let Part { first, count, .. } = rule.our_part;
                    covered[first..first + count]
                        .iter_mut()
                        .for_each(|n| *n += 1);
                    assert!(rule.their_shape(&shape).iter().all(|&axis| axis > 0));
                }
                assert!(
                    covered.iter().all(|&n| n > 0),
                    "{layout}: {name} {covered:?}"
                );
            }
        }
    }
}
