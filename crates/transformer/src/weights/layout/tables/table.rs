//! The builder of a layout's rules, and the names of this crate's layers.

use crate::weights::layout::rule::{Kind, Part, Rule};

/// Returns part `first`, from 0, of a packed parameter that consists of `of` equal parts.
pub(super) const fn part(first: usize, of: usize) -> Part {
    Part {
        first,
        count: 1,
        of,
    }
}

pub(super) const QUERY: (&str, Part) = ("self_attention.w_qkv", part(0, 3));
pub(super) const KEY: (&str, Part) = ("self_attention.w_qkv", part(1, 3));
pub(super) const VALUE: (&str, Part) = ("self_attention.w_qkv", part(2, 3));
pub(super) const OUTPUT: (&str, Part) = ("self_attention.w_o", Part::WHOLE);
pub(super) const CROSS_QUERY: (&str, Part) = ("cross_attention.w_q", Part::WHOLE);
pub(super) const CROSS_KEY: (&str, Part) = ("cross_attention.w_kv", part(0, 2));
pub(super) const CROSS_VALUE: (&str, Part) = ("cross_attention.w_kv", part(1, 2));
pub(super) const CROSS_OUTPUT: (&str, Part) = ("cross_attention.w_o", Part::WHOLE);
pub(super) const INNER: (&str, Part) = ("feed_forward.w_1", Part::WHOLE);
pub(super) const GATE: (&str, Part) = ("feed_forward.w_1", part(0, 2));
pub(super) const GATED: (&str, Part) = ("feed_forward.w_1", part(1, 2));
pub(super) const OUTER: (&str, Part) = ("feed_forward.w_2", Part::WHOLE);

pub(super) const SELF_NORM: &str = "self_attention_residual.norm";
pub(super) const CROSS_NORM: &str = "cross_attention_residual.norm";
pub(super) const INNER_NORM: &str = "feed_forward_residual.norm";

pub(super) const BOTH: &str = "{s}";
pub(super) const ENCODER: &str = "encoder";
pub(super) const DECODER: &str = "decoder";

/// A builder of a layout's rules.
pub(super) struct Table {
    rules: Vec<Rule>,
    /// The layout's names for the scale and the shift of a norm.
    pub norm: [&'static str; 2],
    /// Prefix in the layout's names before `encoder.` or `decoder.`, such as `model.`, or empty.
    pub before: &'static str,
    /// The layout's name for the list of layers in a stack, such as `layers`.
    pub layers: &'static str,
}

impl Table {
    pub fn new(norm: [&'static str; 2]) -> Self {
        Self {
            rules: Vec::new(),
            norm,
            before: "",
            layers: "layers",
        }
    }

    /// Adds a rule. `parts` holds the part of the layout's tensor and the part of this crate's
    /// parameter.
    pub fn rule(&mut self, theirs: &[&str], ours: &str, kind: Kind, parts: [Part; 2]) {
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
    pub fn same(mut self, theirs: &[&str], ours: &str) -> Self {
        self.rule(theirs, ours, Kind::Same, [Part::WHOLE; 2]);
        self
    }

    /// Adds the rules for the embedding tables of a Hugging Face model: `shared` is the name of the
    /// table of both stacks, and `own` that of a stack. A file may keep a shared table under any of
    /// its names, of which the generator's is one.
    pub fn embeddings(self, shared: &str, own: &str) -> Self {
        let [encoder, decoder] = [ENCODER, DECODER].map(|stack| own.replace("{s}", stack));
        let others = [&decoder, &encoder, "lm_head.weight"];
        self.same(
            &[&[shared], &others[..]].concat(),
            "decoder.input.embedding.weight",
        )
        .same(
            &[&[own, shared], &others[..]].concat(),
            "{s}.input.embedding.weight",
        )
    }

    /// Adds the rules for one linear layer in every layer of a stack.
    ///
    /// In `theirs`, `{p}` stands for `weight` or `bias`. `ours` is the name of this crate's layer
    /// and the part of it to which the rules apply.
    pub fn linear(self, stack: &str, theirs: &str, ours: (&str, Part)) -> Self {
        self.packed(stack, theirs, Part::WHOLE, ours)
    }

    /// Adds the rules for a linear layer that is `their_part` of a packed layer in the layout.
    /// `ours` is the name of this crate's layer and the part of it to which the rules apply.
    pub fn packed(
        mut self,
        stack: &str,
        theirs: &str,
        their_part: Part,
        ours: (&str, Part),
    ) -> Self {
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
    pub fn norm(mut self, stack: &str, theirs: &str, ours: &str) -> Self {
        for (their_name, our_name) in self.norm.into_iter().zip(["gamma", "beta"]) {
            let (before, layers) = (self.before, self.layers);
            let theirs = format!("{before}{stack}.{layers}.{{i}}.{theirs}.{their_name}");
            let ours = format!("{stack}.layers.{{i}}.{ours}.{our_name}");
            self.rule(&[&theirs], &ours, Kind::Same, [Part::WHOLE; 2]);
        }
        self
    }

    /// Adds the rules for the final norms of both stacks.
    pub fn final_norm(self, theirs: &str) -> Self {
        self.norm_of_stack(theirs, "{s}.final_norm")
    }

    /// Adds the rules for a norm that each stack has once.
    pub fn norm_of_stack(mut self, theirs: &str, ours: &str) -> Self {
        for (their_name, our_name) in self.norm.into_iter().zip(["gamma", "beta"]) {
            let theirs = format!("{theirs}.{their_name}");
            let ours = format!("{ours}.{our_name}");
            self.rule(&[&theirs], &ours, Kind::Same, [Part::WHOLE; 2]);
        }
        self
    }

    /// Adds the rules for position tables. In the layout, they have an additional axis of size 1
    /// at index `axis`, unless `axis` is `None`.
    pub fn positions(mut self, theirs: &[&str], stack: &str, axis: Option<usize>) -> Self {
        let ours = format!("{stack}.input.position.learned.weight");
        self.rule(theirs, &ours, Kind::Positions(axis), [Part::WHOLE; 2]);
        self
    }

    pub fn generator(mut self, theirs: &[&str]) -> Self {
        for (name, kind) in [("weight", Kind::Linear), ("bias", Kind::Vector(0))] {
            let theirs: Vec<String> = theirs.iter().map(|x| format!("{x}.{name}")).collect();
            let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
            let ours = format!("decoder.generator.{name}");
            self.rule(&theirs, &ours, kind, [Part::WHOLE; 2]);
        }
        self
    }

    pub fn rules(self) -> Vec<Rule> {
        self.rules
    }
}

impl Table {
    /// Adds the rules of the native layout for one linear layer in every layer of a stack. The
    /// names and the arrangement are the same as in this crate.
    pub fn own_linear(mut self, stack: &str, block: &str) -> Self {
        for name in ["weight", "bias"] {
            let name = format!("{stack}.layers.{{i}}.{block}.{name}");
            self.rule(&[&name], &name, Kind::Same, [Part::WHOLE; 2]);
        }
        self
    }
}
