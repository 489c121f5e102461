//! Marian of Hugging Face.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules: bart::layers,
    core: bart::CORE,
    ignores: bart::IGNORES,
    usual,
    free: &["scale_embeddings", "weight_tying"],
    refuses: |config, _| (config.weight_tying == WeightTying::Embeddings).then_some("weight_tying"),
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
            let is_shared: Option<bool> = fields.optional(SHARED)?;
            if is_shared != Some(false) {
                return bart::read(fields, kin);
            }
            // The weights show whether the generator is tied.
            fields.optional::<bool>("tie_word_embeddings")?;
            let target_vocab_size = fields.optional("decoder_vocab_size")?;
            let (options, sizes) = bart::read(fields, kin)?;
            let sizes = Sizes {
                target_vocab_size,
                ..sizes
            };
            Ok((options, sizes))
        },
        write: |stacks| {
            let config = stacks.nearest();
            let mut fields = bart::write(stacks, "marian", "MarianMTModel");
            fields[SHARED] = config.weight_tying.shares_source().into();
            fields["tie_word_embeddings"] = config.weight_tying.shares_generator().into();
            fields["decoder_vocab_size"] = config.target_vocab_size.into();
            fields
        },
    }),
    ..PLAIN
};

/// The field that is false in a model with a vocabulary for each side.
const SHARED: &str = "share_encoder_decoder_embeddings";

fn usual(base: TransformerConfig) -> TransformerConfig {
    let last = u32::try_from(base.target_vocab_size.saturating_sub(1));
    base.with_activation(Activation::Swish)
        .with_positions(Positions::SinusoidalHalves)
        .with_final_norm(false)
        .with_weight_tying(WeightTying::All)
        .with_pad_id(last.unwrap_or(0))
}
