//! Layouts: how others name and arrange the parameters of the same model.
//!
//! A layout is a table of [`Rule`]s, read in both directions. Import and export are the same for
//! all of them.

mod shapes;
mod tables;

pub(super) use shapes::shapes;

use std::fmt;

use super::import::Contents;
use crate::config::{
    Activation, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};

/// A way to name and arrange the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// This crate's own.
    Native,
    /// `encoder.layers.0.self_attn.w_q.weight`: models written after the paper, with the paper's
    /// names.
    Paper,
    /// `encoder.layers.0.self_attn.query.linear.weight`: labml's annotated implementation.
    Labml,
    /// `encoder.layers.0.self_attn.linears.0.weight`: the Annotated Transformer.
    Annotated,
    /// `encoder.layers.0.self_attn.in_proj_weight`: `torch.nn.Transformer`, with embeddings and
    /// generator around it.
    TorchNn,
    /// `model.encoder.layers.0.self_attn.q_proj.weight`: Marian in Hugging Face's library.
    Marian,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Native,
        Self::Paper,
        Self::Labml,
        Self::Annotated,
        Self::TorchNn,
        Self::Marian,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Paper => "paper",
            Self::Labml => "labml",
            Self::Annotated => "annotated",
            Self::TorchNn => "torch-nn",
            Self::Marian => "marian",
        }
    }

    pub(super) fn rules(self) -> Vec<Rule> {
        tables::rules(self)
    }

    /// What a model has that was written with this layout, where its weights do not show it. The
    /// sizes are not meant.
    pub(super) fn usual(self, vocab_size: usize) -> TransformerConfig {
        let config = TransformerConfig::new(1, 1);
        match self {
            Self::Native | Self::Paper | Self::TorchNn => config,
            Self::Labml => config.with_norm_placement(NormPlacement::Pre),
            Self::Annotated => config
                .with_norm_placement(NormPlacement::Pre)
                .with_norm_variance(NormVariance::Unbiased)
                // Added to the standard deviation there, 1e-6; to the variance here. They come to
                // the same where the deviation is 1.
                .with_norm_epsilon(2e-6),
            Self::Marian => config
                .with_activation(Activation::Swish)
                .with_positions(Positions::SinusoidalHalves)
                .with_final_norm(false)
                .with_pad_id(u32::try_from(vocab_size.saturating_sub(1)).unwrap_or(0)),
        }
    }

    /// What of a model this layout's classes cannot compute.
    pub(super) fn refuses(
        self,
        config: &TransformerConfig,
        contents: Contents,
    ) -> Option<(&'static str, String)> {
        if self == Self::Native {
            return None;
        }
        let usual = self.usual(1);
        let value = |x: &dyn fmt::Debug| format!("{x:?}");
        let is_free = matches!(self, Self::Paper | Self::TorchNn);
        if !is_free && config.norm_placement != usual.norm_placement {
            return Some(("norm_placement", value(&config.norm_placement)));
        }
        // `torch.nn.TransformerEncoder` has one only if it is given one.
        let may_lack_norm = self == Self::TorchNn && contents != Contents::Model;
        if config.final_norm != usual.final_norm && !may_lack_norm {
            return Some(("final_norm", value(&config.final_norm)));
        }
        if config.norm_variance != usual.norm_variance {
            return Some(("norm_variance", value(&config.norm_variance)));
        }
        if config.positions != usual.positions {
            return Some(("positions", value(&config.positions)));
        }
        if config.activation.is_gated() {
            return Some(("activation", value(&config.activation)));
        }
        if !config.scale_embeddings {
            return Some(("scale_embeddings", value(&config.scale_embeddings)));
        }
        if self == Self::Marian && config.weight_tying != WeightTying::All {
            return Some(("weight_tying", value(&config.weight_tying)));
        }
        None
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Stands in the tables before what is inside `torch.nn.Transformer`, whatever it is called there.
pub(super) const CORE: &str = "transformer.";

/// Some of the equal parts that a packed parameter consists of, along the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The first of them.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

impl Part {
    pub const WHOLE: Self = Self {
        first: 0,
        count: 1,
        of: 1,
    };
}

/// How numbers are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The same in both.
    Same,
    /// The weight of a linear layer, there `[out, in]`, here `[in, out]`.
    Linear,
    /// A vector that may have axes of 1 before it there; so many are written.
    Vector(usize),
    /// A table of positions `[max_len, D]`, with an axis of 1 there before the axis given, if any.
    Positions(Option<usize>),
}

/// One line of a layout's table. In names `{s}` is `encoder` or `decoder`, `{i}` a layer.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Names in the layout. Any of them is read, the first is written.
    pub theirs: Vec<String>,
    /// Name here.
    pub ours: String,
    /// Arrangement.
    pub kind: Kind,
    /// Which part of theirs.
    pub their_part: Part,
    /// Which part of ours.
    pub our_part: Part,
}

impl Rule {
    /// The rule for one stack and, where it has one, one layer.
    fn of(&self, stack: &str, layer: usize) -> Self {
        let name = |pattern: &String| {
            pattern
                .replace("{s}", stack)
                .replace("{i}", &layer.to_string())
        };
        Self {
            theirs: self.theirs.iter().map(name).collect(),
            ours: name(&self.ours),
            ..self.clone()
        }
    }

    /// The shape there of a parameter that has `shape` here.
    pub fn their_shape(&self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        let unit = shape.last().map_or(0, |width| width / self.our_part.of);
        if self.kind != Kind::Same
            && let Some(width) = shape.last_mut()
        {
            *width = unit * self.our_part.count / self.their_part.count * self.their_part.of;
        }
        match self.kind {
            Kind::Same | Kind::Positions(None) => {}
            Kind::Linear => shape.reverse(),
            Kind::Vector(axes) => shape.splice(0..0, vec![1; axes]).for_each(drop),
            Kind::Positions(Some(axis)) => shape.insert(axis, 1),
        }
        shape
    }

    /// Calls `pair` with the place of each number there and here, for a parameter of `shape` here.
    pub fn for_each_pair(&self, shape: &[usize], mut pair: impl FnMut(usize, usize)) {
        let Some((&width, axes)) = shape.split_last() else {
            return pair(0, 0);
        };
        let input: usize = axes.iter().product();
        let unit = width / self.our_part.of;
        let count = unit * self.our_part.count;
        let first = unit * self.our_part.first;
        let their_unit = count / self.their_part.count;
        let their_width = their_unit * self.their_part.of;
        let their_first = their_unit * self.their_part.first;
        for row in 0..input {
            for column in 0..count {
                let there = their_first + column;
                let there = match self.kind {
                    Kind::Linear => there * input + row,
                    _ => row * their_width + there,
                };
                pair(there, row * width + first + column);
            }
        }
    }

    /// Whether a tensor of the shape `found` can be read for one of the shape `expected` there.
    pub fn fits(&self, found: &[usize], expected: &[usize]) -> bool {
        let without_ones = |shape: &[usize]| -> Vec<usize> {
            shape.iter().copied().filter(|&axis| axis != 1).collect()
        };
        match self.kind {
            Kind::Same | Kind::Linear => found == expected,
            Kind::Vector(_) | Kind::Positions(_) => {
                found.last() == expected.last() && without_ones(found) == without_ones(expected)
            }
        }
    }
}

/// The rules of a layout for models with so many layers. `is_bare` is a stack that stands alone,
/// without its own name before each of its parameters' names there.
pub(super) fn expand(layout: Layout, n_layers: [usize; 2], is_bare: bool) -> Vec<Rule> {
    let mut all = Vec::new();
    for rule in layout.rules() {
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
            *name = bare(name);
        }
    }
    all
}

/// A name as it is where the stack stands alone.
fn bare(name: &str) -> String {
    for (before, stays) in [("", ""), (CORE, CORE), ("model.", "")] {
        for stack in ["encoder.", "decoder."] {
            let rest = name.strip_prefix(before);
            if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(stack)) {
                return format!("{stays}{rest}");
            }
        }
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn shapes_are_those_of_the_model() {
        let small = TransformerConfig::new(7, 7)
            .with_d_model(8)
            .with_n_heads(2)
            .with_d_ff(6)
            .with_max_len(5)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(2);
        let own = |config: &TransformerConfig| -> Vec<(String, Vec<usize>)> {
            let model = config.init(&Device::flex()).unwrap();
            crate::weights::shapes(&model).into_iter().collect()
        };
        for config in [
            small.clone(),
            small.clone().with_positions(Positions::Learned),
            small.clone().with_weight_tying(WeightTying::Decoder),
            small.clone().with_weight_tying(WeightTying::All),
            small.clone().with_activation(Activation::Swiglu),
            small.clone().with_final_norm(false),
        ] {
            let mut given = shapes(&config, [true, true]);
            given.sort();
            assert_eq!(given, own(&config), "{config:?}");
        }
    }

    #[test]
    fn each_layout_has_a_place_for_every_part_of_every_parameter() {
        for layout in Layout::ALL {
            let config = layout
                .usual(7)
                .with_n_encoder_layers(2)
                .with_n_decoder_layers(1);
            let rules = expand(layout, [2, 1], false);
            for (name, shape) in shapes(&config, [true, true]) {
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
