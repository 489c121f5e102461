//! A table for each layout, which says to which tensor of a file each parameter corresponds.

mod hugging_face;
mod table;

use self::hugging_face::{marian, t5};
use self::table::*;
use super::name::Layout;
use super::rule::{CORE, Part, Rule};

pub(super) fn rules(layout: Layout) -> Vec<Rule> {
    match layout {
        Layout::Native => native(),
        Layout::Paper => paper(),
        Layout::Labml => labml(),
        Layout::Annotated => annotated(),
        Layout::TorchNn => torch_nn(),
        Layout::Marian => marian().rules(),
        Layout::M2m100 => marian().final_norm("model.{s}.layer_norm").rules(),
        Layout::Bart => marian()
            .final_norm("model.{s}.layer_norm")
            .norm_of_stack("model.{s}.layernorm_embedding", "{s}.input.norm")
            .rules(),
        Layout::T5 => t5()
            .linear(ENCODER, "layer.1.DenseReluDense.wi.{p}", INNER)
            .linear(DECODER, "layer.2.DenseReluDense.wi.{p}", INNER)
            .rules(),
        Layout::T5Gated => t5()
            .linear(ENCODER, "layer.1.DenseReluDense.wi_0.{p}", GATE)
            .linear(ENCODER, "layer.1.DenseReluDense.wi_1.{p}", GATED)
            .linear(DECODER, "layer.2.DenseReluDense.wi_0.{p}", GATE)
            .linear(DECODER, "layer.2.DenseReluDense.wi_1.{p}", GATED)
            .rules(),
    }
}

fn native() -> Vec<Rule> {
    let mut table = Table::new(["gamma", "beta"]);
    for block in [OUTPUT.0, "self_attention.w_qkv", INNER.0, OUTER.0] {
        table = table.own_linear(BOTH, block);
    }
    for block in [
        "cross_attention.w_q",
        "cross_attention.w_kv",
        CROSS_OUTPUT.0,
    ] {
        table = table.own_linear(DECODER, block);
    }
    let own = |table: Table, name: &str| table.same(&[name], name);
    for name in [
        "{s}.input.embedding.weight",
        "{s}.input.position.learned.weight",
        "{s}.attention_position.relative.weight",
        "decoder.generator.weight",
        "decoder.generator.bias",
    ] {
        table = own(table, name);
    }
    table
        .norm(BOTH, SELF_NORM, SELF_NORM)
        .norm(DECODER, CROSS_NORM, CROSS_NORM)
        .norm(BOTH, INNER_NORM, INNER_NORM)
        .final_norm("{s}.final_norm")
        .norm_of_stack("{s}.input.norm", "{s}.input.norm")
        .rules()
}

fn paper() -> Vec<Rule> {
    Table::new(["weight", "bias"])
        .linear(BOTH, "self_attn.w_q.{p}", QUERY)
        .linear(BOTH, "self_attn.w_k.{p}", KEY)
        .linear(BOTH, "self_attn.w_v.{p}", VALUE)
        .linear(BOTH, "self_attn.w_o.{p}", OUTPUT)
        .linear(DECODER, "cross_attn.w_q.{p}", CROSS_QUERY)
        .linear(DECODER, "cross_attn.w_k.{p}", CROSS_KEY)
        .linear(DECODER, "cross_attn.w_v.{p}", CROSS_VALUE)
        .linear(DECODER, "cross_attn.w_o.{p}", CROSS_OUTPUT)
        .linear(BOTH, "feed_forward.w_1.{p}", INNER)
        .linear(BOTH, "feed_forward.w_2.{p}", OUTER)
        .norm(BOTH, "norm1", SELF_NORM)
        .norm(ENCODER, "norm2", INNER_NORM)
        .norm(DECODER, "norm2", CROSS_NORM)
        .norm(DECODER, "norm3", INNER_NORM)
        .final_norm("{s}.norm")
        .same(&["{s}.embedding.weight"], "{s}.input.embedding.weight")
        .positions(
            &["{s}.pos_encoding.pe", "{s}.pos_encoder.pe", "{s}.pe"],
            BOTH,
            Some(0),
        )
        .generator(&["decoder.output_projection", "output_projection"])
        .rules()
}

fn labml() -> Vec<Rule> {
    Table::new(["weight", "bias"])
        .linear(BOTH, "self_attn.query.linear.{p}", QUERY)
        .linear(BOTH, "self_attn.key.linear.{p}", KEY)
        .linear(BOTH, "self_attn.value.linear.{p}", VALUE)
        .linear(BOTH, "self_attn.output.{p}", OUTPUT)
        .linear(DECODER, "src_attn.query.linear.{p}", CROSS_QUERY)
        .linear(DECODER, "src_attn.key.linear.{p}", CROSS_KEY)
        .linear(DECODER, "src_attn.value.linear.{p}", CROSS_VALUE)
        .linear(DECODER, "src_attn.output.{p}", CROSS_OUTPUT)
        .linear(BOTH, "feed_forward.layer1.{p}", INNER)
        .linear(BOTH, "feed_forward.layer2.{p}", OUTER)
        .norm(BOTH, "norm_self_attn", SELF_NORM)
        .norm(DECODER, "norm_src_attn", CROSS_NORM)
        .norm(BOTH, "norm_ff", INNER_NORM)
        .final_norm("{s}.norm")
        .same(
            &["src_embed.linear.weight"],
            "encoder.input.embedding.weight",
        )
        .same(
            &["tgt_embed.linear.weight"],
            "decoder.input.embedding.weight",
        )
        .positions(&["src_embed.positional_encodings"], ENCODER, Some(1))
        .positions(&["tgt_embed.positional_encodings"], DECODER, Some(1))
        .generator(&["generator.projection"])
        .rules()
}

fn annotated() -> Vec<Rule> {
    Table::new(["a_2", "b_2"])
        .linear(BOTH, "self_attn.linears.0.{p}", QUERY)
        .linear(BOTH, "self_attn.linears.1.{p}", KEY)
        .linear(BOTH, "self_attn.linears.2.{p}", VALUE)
        .linear(BOTH, "self_attn.linears.3.{p}", OUTPUT)
        .linear(DECODER, "src_attn.linears.0.{p}", CROSS_QUERY)
        .linear(DECODER, "src_attn.linears.1.{p}", CROSS_KEY)
        .linear(DECODER, "src_attn.linears.2.{p}", CROSS_VALUE)
        .linear(DECODER, "src_attn.linears.3.{p}", CROSS_OUTPUT)
        .linear(BOTH, "feed_forward.w_1.{p}", INNER)
        .linear(BOTH, "feed_forward.w_2.{p}", OUTER)
        .norm(BOTH, "sublayer.0.norm", SELF_NORM)
        .norm(ENCODER, "sublayer.1.norm", INNER_NORM)
        .norm(DECODER, "sublayer.1.norm", CROSS_NORM)
        .norm(DECODER, "sublayer.2.norm", INNER_NORM)
        .final_norm("{s}.norm")
        .same(
            &["src_embed.0.lut.weight"],
            "encoder.input.embedding.weight",
        )
        .same(
            &["tgt_embed.0.lut.weight"],
            "decoder.input.embedding.weight",
        )
        .positions(&["src_embed.1.pe"], ENCODER, Some(0))
        .positions(&["tgt_embed.1.pe"], DECODER, Some(0))
        .generator(&["generator.proj"])
        .rules()
}

fn torch_nn() -> Vec<Rule> {
    let all = Part {
        first: 0,
        count: 3,
        of: 3,
    };
    let key_value = Part {
        first: 1,
        count: 2,
        of: 3,
    };
    let whole = |count| Part {
        first: 0,
        count,
        of: count,
    };
    let mut table = Table::new(["weight", "bias"]);
    table.before = CORE;
    table
        .packed(
            BOTH,
            "self_attn.in_proj_{p}",
            all,
            ("self_attention.w_qkv", whole(3)),
        )
        .linear(BOTH, "self_attn.out_proj.{p}", OUTPUT)
        .packed(
            DECODER,
            "multihead_attn.in_proj_{p}",
            part(0, 3),
            CROSS_QUERY,
        )
        .packed(
            DECODER,
            "multihead_attn.in_proj_{p}",
            key_value,
            ("cross_attention.w_kv", whole(2)),
        )
        .linear(DECODER, "multihead_attn.out_proj.{p}", CROSS_OUTPUT)
        .linear(BOTH, "linear1.{p}", INNER)
        .linear(BOTH, "linear2.{p}", OUTER)
        .norm(BOTH, "norm1", SELF_NORM)
        .norm(ENCODER, "norm2", INNER_NORM)
        .norm(DECODER, "norm2", CROSS_NORM)
        .norm(DECODER, "norm3", INNER_NORM)
        .final_norm("transformer.{s}.norm")
        // Each model chooses its own names for modules outside `torch.nn.Transformer`.
        .same(
            &[
                "src_tok_emb.embedding.weight",
                "src_tok_emb.weight",
                "src_embed.weight",
                "src_embedding.weight",
                "source_embedding.weight",
                "encoder_embedding.weight",
                "src_emb.weight",
            ],
            "encoder.input.embedding.weight",
        )
        .same(
            &[
                "tgt_tok_emb.embedding.weight",
                "tgt_tok_emb.weight",
                "tgt_embed.weight",
                "tgt_embedding.weight",
                "target_embedding.weight",
                "decoder_embedding.weight",
                "tgt_emb.weight",
            ],
            "decoder.input.embedding.weight",
        )
        .positions(
            &[
                "positional_encoding.pos_embedding",
                "positional_encoding.pe",
                "pos_encoder.pe",
                "pos_encoding.pe",
            ],
            BOTH,
            Some(1),
        )
        .generator(&[
            "generator",
            "fc_out",
            "output_projection",
            "projection",
            "out",
            "fc",
        ])
        .rules()
}
