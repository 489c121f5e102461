//! M2M100, NLLB and Pegasus of Hugging Face.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules: || bart::layers().norm("model.{s}.layer_norm", "{s}.final_norm"),
    core: bart::CORE,
    mark: Some("coder.layer_norm.weight"),
    ignores: bart::IGNORES,
    optional: &["decoder.generator.bias"],
    computes_positions: true,
    usual,
    free: &["positions", "logits_bias", "scale_embeddings"],
    refuses,
    hugging_face: Some(HuggingFace {
        model_types: &["m2m_100", "pegasus"],
        auto_class: "AutoModelForSeq2SeqLM",
        neutral: &[],
        read: |fields, model_type| {
            let is_pegasus = model_type == "pegasus";
            let kin = bart::Kin {
                layout: Layout::M2m100,
                positions: if is_pegasus {
                    Positions::SinusoidalHalves
                } else {
                    Positions::SinusoidalFairseq
                },
                norm_placement: NormPlacement::Pre,
                activation: if is_pegasus { "gelu" } else { "relu" },
                scale_embeddings: !is_pegasus,
                pad_id: if is_pegasus { 0 } else { 1 },
            };
            bart::read(fields, kin)
        },
        write: |stacks| match stacks.nearest().positions {
            Positions::SinusoidalHalves => {
                bart::write(stacks, "pegasus", "PegasusForConditionalGeneration")
            }
            _ => bart::write(stacks, "m2m_100", "M2M100ForConditionalGeneration"),
        },
    }),
    ..PLAIN
};

fn usual(base: TransformerConfig) -> TransformerConfig {
    base.with_norm_placement(NormPlacement::Pre)
        .with_positions(Positions::SinusoidalFairseq)
        .with_max_len(1024)
        .with_logits_bias(false)
        .with_weight_tying(WeightTying::All)
        .with_pad_id(1)
}

/// Pegasus has the positions of Marian and a bias of the logits, M2M100 has neither.
fn refuses(config: &TransformerConfig, _: Contents) -> Option<&'static str> {
    match config.positions {
        Positions::SinusoidalFairseq => config.logits_bias.then_some("logits_bias"),
        Positions::SinusoidalHalves => (!config.logits_bias).then_some("logits_bias"),
        _ => Some("positions"),
    }
}
