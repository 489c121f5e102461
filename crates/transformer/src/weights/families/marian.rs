//! Marian of Hugging Face.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules: bart::layers,
    core: bart::CORE,
    ignores: bart::IGNORES,
    usual,
    free: &["scale_embeddings"],
    hugging_face: Some(HuggingFace {
        model_types: &["marian"],
        auto_class: "AutoModelForSeq2SeqLM",
        neutral: &[],
        read: |fields, _| {
            let kin = bart::Kin {
                layout: Layout::Marian,
                positions: Positions::SinusoidalHalves,
                norm_placement: NormPlacement::Post,
                activation: "gelu",
                scale_embeddings: false,
                pad_id: 58_100,
            };
            bart::read(fields, kin)
        },
        write: |stacks| bart::write(stacks, "marian", "MarianMTModel"),
    }),
    ..PLAIN
};

fn usual(vocab_size: usize) -> TransformerConfig {
    base()
        .with_activation(Activation::Swish)
        .with_positions(Positions::SinusoidalHalves)
        .with_final_norm(false)
        .with_weight_tying(WeightTying::All)
        .with_pad_id(u32::try_from(vocab_size.saturating_sub(1)).unwrap_or(0))
}
