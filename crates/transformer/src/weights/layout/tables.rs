//! The tables of rules, one function per layout.

use super::name::Layout;
use super::rule::{CORE, Kind, Part, Rule};

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

/// Returns the part with the index `first`, from 0, of a packed projection of `of` equal parts.
const fn part(first: usize, of: usize) -> Part {
    Part {
        first,
        count: 1,
        of,
    }
}

const QUERY: (&str, Part) = ("self_attention.w_qkv", part(0, 3));
const KEY: (&str, Part) = ("self_attention.w_qkv", part(1, 3));
const VALUE: (&str, Part) = ("self_attention.w_qkv", part(2, 3));
const OUTPUT: (&str, Part) = ("self_attention.w_o", Part::WHOLE);
const CROSS_QUERY: (&str, Part) = ("cross_attention.w_q", Part::WHOLE);
const CROSS_KEY: (&str, Part) = ("cross_attention.w_kv", part(0, 2));
const CROSS_VALUE: (&str, Part) = ("cross_attention.w_kv", part(1, 2));
const CROSS_OUTPUT: (&str, Part) = ("cross_attention.w_o", Part::WHOLE);
const INNER: (&str, Part) = ("feed_forward.w_1", Part::WHOLE);
const GATE: (&str, Part) = ("feed_forward.w_1", part(0, 2));
const GATED: (&str, Part) = ("feed_forward.w_1", part(1, 2));
const OUTER: (&str, Part) = ("feed_forward.w_2", Part::WHOLE);

const SELF_NORM: &str = "self_attention_residual.norm";
const CROSS_NORM: &str = "cross_attention_residual.norm";
const INNER_NORM: &str = "feed_forward_residual.norm";

const BOTH: &str = "{s}";
const ENCODER: &str = "encoder";
const DECODER: &str = "decoder";

/// A builder of a layout's rules.
struct Table {
    rules: Vec<Rule>,
    /// The layout's names for the scale and the shift of a norm.
    norm: [&'static str; 2],
    /// Prefix in the layout's names before `encoder.` or `decoder.`, such as `model.`, or empty.
    before: &'static str,
    /// The layout's name for the list of a stack's layers.
    layers: &'static str,
}

impl Table {
    fn new(norm: [&'static str; 2]) -> Self {
        Self {
            rules: Vec::new(),
            norm,
            before: "",
            layers: "layers",
        }
    }

    /// Adds a rule. `parts` holds the part of the layout's tensor and the part of this crate's
    /// parameter.
    fn rule(&mut self, theirs: &[&str], ours: &str, kind: Kind, parts: [Part; 2]) {
        let [their_part, our_part] = parts;
        self.rules.push(Rule {
            theirs: theirs.iter().map(ToString::to_string).collect(),
            ours: ours.into(),
            kind,
            their_part,
            our_part,
        });
    }

    /// Adds the rule for a parameter that has the same arrangement in the layout as in this crate.
    fn same(mut self, theirs: &[&str], ours: &str) -> Self {
        self.rule(theirs, ours, Kind::Same, [Part::WHOLE; 2]);
        self
    }

    /// Adds the rules for one linear layer in every layer of a stack. In `theirs`, `{p}` stands for
    /// `weight` or `bias`. `ours` is the name of this crate's layer and the part of it to which the
    /// rules apply.
    fn linear(self, stack: &str, theirs: &str, ours: (&str, Part)) -> Self {
        self.packed(stack, theirs, Part::WHOLE, ours)
    }

    /// Adds the rules for a linear layer that is `their_part` of a packed layer in the layout.
    /// `ours` is the name of this crate's layer and the part of it to which the rules apply.
    fn packed(mut self, stack: &str, theirs: &str, their_part: Part, ours: (&str, Part)) -> Self {
        let (ours, our_part) = ours;
        for (name, kind) in [("weight", Kind::Linear), ("bias", Kind::Vector(0))] {
            let theirs = format!("{}{stack}.{}.{{i}}.{theirs}", self.before, self.layers);
            let theirs = theirs.replace("{p}", name);
            let ours = format!("{stack}.layers.{{i}}.{ours}.{name}");
            self.rule(&[&theirs], &ours, kind, [their_part, our_part]);
        }
        self
    }

    /// Adds the rules for one norm in every layer of a stack.
    fn norm(mut self, stack: &str, theirs: &str, ours: &str) -> Self {
        for (their_name, our_name) in self.norm.into_iter().zip(["gamma", "beta"]) {
            let (before, layers) = (self.before, self.layers);
            let theirs = format!("{before}{stack}.{layers}.{{i}}.{theirs}.{their_name}");
            let ours = format!("{stack}.layers.{{i}}.{ours}.{our_name}");
            self.rule(&[&theirs], &ours, Kind::Same, [Part::WHOLE; 2]);
        }
        self
    }

    /// Adds the rules for the final norms of both stacks.
    fn final_norm(self, theirs: &str) -> Self {
        self.norm_of_stack(theirs, "{s}.final_norm")
    }

    /// Adds the rules for a norm that each stack has once.
    fn norm_of_stack(mut self, theirs: &str, ours: &str) -> Self {
        for (their_name, our_name) in self.norm.into_iter().zip(["gamma", "beta"]) {
            let theirs = format!("{theirs}.{their_name}");
            let ours = format!("{ours}.{our_name}");
            self.rule(&[&theirs], &ours, Kind::Same, [Part::WHOLE; 2]);
        }
        self
    }

    /// Adds the rules for position tables. In the layout, they have an additional axis of size 1
    /// at index `axis`, unless `axis` is `None`.
    fn positions(mut self, theirs: &[&str], stack: &str, axis: Option<usize>) -> Self {
        let ours = format!("{stack}.input.position.Learned.weight");
        self.rule(theirs, &ours, Kind::Positions(axis), [Part::WHOLE; 2]);
        self
    }

    fn generator(mut self, theirs: &[&str]) -> Self {
        for (name, kind) in [("weight", Kind::Linear), ("bias", Kind::Vector(0))] {
            let theirs: Vec<String> = theirs.iter().map(|x| format!("{x}.{name}")).collect();
            let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
            let ours = format!("decoder.generator.{name}");
            self.rule(&theirs, &ours, kind, [Part::WHOLE; 2]);
        }
        self
    }

    fn rules(self) -> Vec<Rule> {
        self.rules
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
        "{s}.input.position.Learned.weight",
        "{s}.attention_position.Relative.weight",
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

impl Table {
    /// Adds the rules of the native layout for one linear layer in every layer of a stack. The
    /// names and the arrangement are the same as in this crate.
    fn own_linear(mut self, stack: &str, block: &str) -> Self {
        for name in ["weight", "bias"] {
            let name = format!("{stack}.layers.{{i}}.{block}.{name}");
            self.rule(&[&name], &name, Kind::Same, [Part::WHOLE; 2]);
        }
        self
    }
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

fn marian() -> Table {
    let mut table = Table::new(["weight", "bias"]);
    table.before = "model.";
    let mut table = table
        .linear(BOTH, "self_attn.q_proj.{p}", QUERY)
        .linear(BOTH, "self_attn.k_proj.{p}", KEY)
        .linear(BOTH, "self_attn.v_proj.{p}", VALUE)
        .linear(BOTH, "self_attn.out_proj.{p}", OUTPUT)
        .linear(DECODER, "encoder_attn.q_proj.{p}", CROSS_QUERY)
        .linear(DECODER, "encoder_attn.k_proj.{p}", CROSS_KEY)
        .linear(DECODER, "encoder_attn.v_proj.{p}", CROSS_VALUE)
        .linear(DECODER, "encoder_attn.out_proj.{p}", CROSS_OUTPUT)
        .linear(BOTH, "fc1.{p}", INNER)
        .linear(BOTH, "fc2.{p}", OUTER)
        .norm(BOTH, "self_attn_layer_norm", SELF_NORM)
        .norm(DECODER, "encoder_attn_layer_norm", CROSS_NORM)
        .norm(BOTH, "final_layer_norm", INNER_NORM)
        .same(&["model.shared.weight"], "decoder.input.embedding.weight")
        .same(
            &["model.{s}.embed_tokens.weight", "model.shared.weight"],
            "{s}.input.embedding.weight",
        )
        .positions(&["model.{s}.embed_positions.weight"], BOTH, None);
    let names = ["lm_head.weight", "decoder.generator.weight"];
    table.rule(&names[..1], names[1], Kind::Linear, [Part::WHOLE; 2]);
    let names = ["final_logits_bias", "decoder.generator.bias"];
    table.rule(&names[..1], names[1], Kind::Vector(1), [Part::WHOLE; 2]);
    table
}

/// Returns the rules that plain and gated T5 have in common.
fn t5() -> Table {
    let mut table = Table::new(["weight", "bias"]);
    table.layers = "block";
    let mut table = table
        .linear(BOTH, "layer.0.SelfAttention.q.{p}", QUERY)
        .linear(BOTH, "layer.0.SelfAttention.k.{p}", KEY)
        .linear(BOTH, "layer.0.SelfAttention.v.{p}", VALUE)
        .linear(BOTH, "layer.0.SelfAttention.o.{p}", OUTPUT)
        .linear(DECODER, "layer.1.EncDecAttention.q.{p}", CROSS_QUERY)
        .linear(DECODER, "layer.1.EncDecAttention.k.{p}", CROSS_KEY)
        .linear(DECODER, "layer.1.EncDecAttention.v.{p}", CROSS_VALUE)
        .linear(DECODER, "layer.1.EncDecAttention.o.{p}", CROSS_OUTPUT)
        .linear(ENCODER, "layer.1.DenseReluDense.wo.{p}", OUTER)
        .linear(DECODER, "layer.2.DenseReluDense.wo.{p}", OUTER)
        .norm(BOTH, "layer.0.layer_norm", SELF_NORM)
        .norm(ENCODER, "layer.1.layer_norm", INNER_NORM)
        .norm(DECODER, "layer.1.layer_norm", CROSS_NORM)
        .norm(DECODER, "layer.2.layer_norm", INNER_NORM)
        .final_norm("{s}.final_layer_norm")
        .same(
            &["{s}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
            "{s}.attention_position.Relative.weight",
        )
        .same(&["shared.weight"], "decoder.input.embedding.weight")
        .same(
            &["{s}.embed_tokens.weight", "shared.weight"],
            "{s}.input.embedding.weight",
        );
    let names = ["lm_head.weight", "decoder.generator.weight"];
    table.rule(&names[..1], names[1], Kind::Linear, [Part::WHOLE; 2]);
    table
}
