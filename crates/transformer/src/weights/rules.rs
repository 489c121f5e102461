//! Rules of one's own: where the parameters of a module are in the file of another implementation.

use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::TensorData;

use super::element::check_float;
use super::error::WeightsError;
use super::file::WeightsFile;
use super::parameters::{Parameters, shapes, with_parameters};
use super::pieces::{self, Pieces};
use super::rule::{Kind, Part, Rule};

/// Rules that say which tensors of a file are which parameters of a module.
///
/// In names, `{i}` stands for any number, the same one in both names of a rule. Tensors in f16,
/// bf16, f32 or f64 are read. Only shapes are checked: that a square matrix is `[in, out]` or `[out,
/// in]`, that queries, keys and values are not interleaved by head, and which dimensions rotary
/// positions pair is for the rules and the configuration to say.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use burn::tensor::Device;
/// use transformer::EncoderConfig;
/// use transformer::weights::{Rules, WeightsFile};
/// # use burn::tensor::TensorData;
/// # use transformer::weights::{parameters, to_bytes};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let device = Device::flex();
/// # let encoder = EncoderConfig::new(8, 12, 2, 1).init(&device)?;
/// # let mut theirs = std::collections::BTreeMap::new();
/// # for (name, shape) in [
/// #     ("block.0.q.weight", vec![8, 8]), ("block.0.k.weight", vec![8, 8]),
/// #     ("block.0.v.weight", vec![8, 8]), ("block.0.o.weight", vec![8, 8]),
/// #     ("block.0.up.weight", vec![12, 8]), ("block.0.down.weight", vec![8, 12]),
/// #     ("block.0.norm_1.weight", vec![8]), ("block.0.norm_1.bias", vec![8]),
/// #     ("block.0.norm_2.weight", vec![8]), ("block.0.norm_2.bias", vec![8]),
/// #     ("norm.weight", vec![8]), ("norm.bias", vec![8]), ("version", vec![1]),
/// # ] {
/// #     let n = shape.iter().product();
/// #     theirs.insert(name.to_string(), TensorData::new(vec![0.5f32; n], shape));
/// # }
/// # std::fs::write(&path, to_bytes(&theirs)?)?;
///
/// // PyTorch's linear layers are `[out, in]`; queries, keys and values become one matrix.
/// let rules = Rules::new()
///     .norm("norm", "final_norm")
///     .within("block.{i}.", "layers.{i}.")
///     .packed(&["q", "k", "v"], "self_attention.w_qkv")
///     .linear("o", "self_attention.w_o")
///     .linear("up", "feed_forward.w_1")
///     .linear("down", "feed_forward.w_2")
///     .norm("norm_1", "self_attention_residual.norm")
///     .norm("norm_2", "feed_forward_residual.norm")
///     .with_zero_biases()
///     .ignoring("version");
/// let encoder = rules.read(&WeightsFile::open(&path)?, &encoder)?;
/// # assert_eq!(parameters(&encoder)["layers.0.self_attention.w_qkv.weight"].shape().to_vec(), [8, 24]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) all: Vec<Rule>,
    ignored: Vec<String>,
    zero_biases: bool,
    /// What stands before both names of the rules that follow.
    within: [String; 2],
    /// The arrangement of the weights of linear layers in the rules that follow.
    weight: Kind,
    /// The library's names for the scale and the shift of a norm.
    norm: [&'static str; 2],
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Rules {
    /// Creates an empty set of rules.
    pub fn new() -> Self {
        Self {
            all: Vec::new(),
            ignored: Vec::new(),
            zero_biases: false,
            within: Default::default(),
            weight: Kind::Linear,
            norm: ["weight", "bias"],
        }
    }

    /// Puts `theirs` and `ours` before the names in the rules that follow, such as `block.{i}.` and
    /// `layers.{i}.`, instead of what an earlier call has put there.
    pub fn within(mut self, theirs: &str, ours: &str) -> Self {
        self.within = [theirs.into(), ours.into()];
        self
    }

    /// Lets the weights of linear layers be `[in, out]` in the rules that follow, as they are here, in
    /// Burn and in GPT-2.
    ///
    /// ```
    /// # use transformer::weights::Rules;
    /// // The attention of burn-nn.
    /// let rules = Rules::new()
    ///     .in_out()
    ///     .within("layers.{i}.mha.", "layers.{i}.self_attention.")
    ///     .packed(&["query", "key", "value"], "w_qkv")
    ///     .linear("output", "w_o");
    /// ```
    pub fn in_out(mut self) -> Self {
        self.weight = Kind::Same;
        self
    }

    /// Adds the rule for a parameter with the same shape in the file, axes of size 1 before it aside,
    /// such as an embedding table.
    pub fn same(self, theirs: &str, ours: &str) -> Self {
        self.same_as(&[theirs], ours)
    }

    /// Adds the rules for weight and bias of a linear layer, whose weight is `[out, in]` in the
    /// file, as in PyTorch, or `[in, out]` after [`in_out`](Self::in_out). The names lack `.weight`
    /// and `.bias`, unless `theirs` has `{p}` where one of the two words stands, as in
    /// `self_attn.in_proj_{p}` of PyTorch's attention.
    pub fn linear(self, theirs: &str, ours: &str) -> Self {
        self.packed(&[theirs], ours)
    }

    /// Adds the rules for linear layers that are side by side in one of the file, each with its share
    /// of the outputs, in this order. `theirs` is as in [`linear`](Self::linear).
    ///
    /// ```
    /// # use transformer::weights::Rules;
    /// // PyTorch's attention packs queries, keys and values; a memory has only keys and values.
    /// let rules = Rules::new()
    ///     .within("layers.{i}.multihead_attn.", "layers.{i}.cross_attention.")
    ///     .split("in_proj_{p}", &[("w_q", 1), ("w_kv", 2)])
    ///     .linear("out_proj", "w_o");
    /// ```
    ///
    /// # Panics
    ///
    /// If a share is 0.
    pub fn split(mut self, theirs: &str, ours: &[(&str, usize)]) -> Self {
        let is_share = |&(_, share): &(&str, usize)| share > 0;
        assert!(
            ours.iter().all(is_share),
            "the shares are {ours:?}, but must be at least 1"
        );
        let of = ours.iter().map(|(_, share)| share).sum();
        let mut first = 0;
        for &(name, count) in ours {
            self = self.part(&[theirs], name, Part { first, count, of });
            first += count;
        }
        self
    }

    /// Adds the rules for a linear layer that consists of several layers of the file, side by side,
    /// such as queries, keys and values. The names lack `.weight` and `.bias`.
    pub fn packed(mut self, theirs: &[&str], ours: &str) -> Self {
        for (end, kind) in self.linear_kinds() {
            for (first, name) in theirs.iter().enumerate() {
                let part = Part {
                    first,
                    count: 1,
                    of: theirs.len(),
                };
                let (name, ours) = (with_end(name, end), format!("{ours}.{end}"));
                self.add(&[&name], &ours, kind, [Part::WHOLE, part]);
            }
        }
        self
    }

    /// Adds the rules for scale and shift of a norm, `.weight` and `.bias` in the file.
    pub fn norm(mut self, theirs: &str, ours: &str) -> Self {
        for (end, own) in self.norm.into_iter().zip(["gamma", "beta"]) {
            self = self.same(&format!("{theirs}.{end}"), &format!("{ours}.{own}"));
        }
        self
    }

    /// Lets biases of linear layers and shifts of norms that the file lacks be zeros, also those of
    /// some of the layers that are packed in one.
    pub fn with_zero_biases(mut self) -> Self {
        self.zero_biases = true;
        self
    }

    /// Leaves out the tensors whose names have `part` between dots: `cls` leaves out `cls.weight`
    /// and `bert.cls.bias`.
    pub fn ignoring(mut self, part: &str) -> Self {
        self.ignored.push(format!(".{part}."));
        self
    }

    /// Sets the library's names for the scale and the shift of the norms that follow.
    pub(super) fn with_norm_names(mut self, scale: &'static str, shift: &'static str) -> Self {
        self.norm = [scale, shift];
        self
    }

    /// Adds the rule for a parameter with the same shape under one of several names.
    pub(super) fn same_as(mut self, theirs: &[&str], ours: &str) -> Self {
        self.add(theirs, ours, Kind::Same, [Part::WHOLE; 2]);
        self
    }

    /// Adds the rules for a linear layer that is `part` of one in the file, under one of several
    /// names.
    pub(super) fn part(mut self, theirs: &[&str], ours: &str, part: Part) -> Self {
        for (end, kind) in self.linear_kinds() {
            let theirs: Vec<String> = theirs.iter().map(|name| with_end(name, end)).collect();
            let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
            self.add(&theirs, &format!("{ours}.{end}"), kind, [part, Part::WHOLE]);
        }
        self
    }

    /// Adds the rule for a vector that has `axes` leading axes of size 1 in the file.
    pub(super) fn vector(mut self, theirs: &str, ours: &str, axes: usize) -> Self {
        self.add(&[theirs], ours, Kind::Vector(axes), [Part::WHOLE; 2]);
        self
    }

    /// Adds the rule for the position table of a stack under one of several names. In the file, it
    /// has an additional axis of size 1 at index `axis`, unless `axis` is `None`.
    pub(super) fn positions(mut self, theirs: &[&str], stack: &str, axis: Option<usize>) -> Self {
        let ours = format!("{stack}.input.position.learned.weight");
        self.add(theirs, &ours, Kind::Positions(axis), [Part::WHOLE; 2]);
        self
    }

    /// Adds the rules for the embedding tables of a Hugging Face model: `shared` is the name of the
    /// table of both stacks, and `own` that of a stack. A file may keep a shared table under any of
    /// its names, of which the generator's is one.
    pub(super) fn embeddings(self, shared: &str, own: &str) -> Self {
        let [encoder, decoder] = ["encoder", "decoder"].map(|stack| own.replace("{s}", stack));
        let others = [&decoder, &encoder, "lm_head.weight"];
        let decoder = [&[shared], &others[..]].concat();
        let either = [&[own, shared], &others[..]].concat();
        self.same_as(&decoder, "decoder.input.embedding.weight")
            .same_as(&either, "{s}.input.embedding.weight")
    }

    /// Adds the rule for the weight of a generator, `[V, D]` in the file, that has no bias.
    pub(super) fn generator(mut self, theirs: &str) -> Self {
        let ours = "decoder.generator.weight";
        self.add(&[theirs], ours, Kind::Linear, [Part::WHOLE; 2]);
        self
    }

    /// Returns the ends of the names of a linear layer's parameters, and their arrangement.
    fn linear_kinds(&self) -> [(&'static str, Kind); 2] {
        [("weight", self.weight), ("bias", Kind::Vector(0))]
    }

    /// Adds a rule. `parts` are those of the tensor in the file and of the parameter.
    fn add(&mut self, theirs: &[&str], ours: &str, kind: Kind, parts: [Part; 2]) {
        let [before, own] = &self.within;
        let [their_part, our_part] = parts;
        self.all.push(Rule {
            theirs: theirs
                .iter()
                .map(|name| format!("{before}{name}"))
                .collect(),
            ours: format!("{own}{ours}"),
            kind,
            their_part,
            our_part,
        });
    }

    /// Returns a copy of `module` with the parameters of a file.
    ///
    /// # Errors
    ///
    /// A parameter has no rule or several, a rule names no parameter, or a tensor is not in the file. A
    /// tensor of the file is neither
    /// used nor ignored, has another shape or an element type that is not floating-point, or has
    /// elements that are not finite. The file cannot be read, or has Python objects other than
    /// tensors and plain data.
    pub fn read<M: Module>(&self, file: &WeightsFile, module: &M) -> Result<M, WeightsError> {
        if let Some(foreign) = file.foreign_objects().first() {
            return Err(WeightsError::Foreign {
                path: foreign.path.clone(),
                class: foreign.class.clone(),
                others: file.foreign_objects().len() - 1,
            });
        }
        let shapes = shapes(module);
        self.check_parameters(shapes.keys())?;
        let (mut given, mut used, mut missing) = (Parameters::new(), BTreeSet::new(), Vec::new());
        for (name, shape) in shapes {
            let (rules, number) = self.of(&name)?;
            let theirs = rules.iter().map(|rule| fill(&rule.theirs[0], number));
            let theirs: Vec<String> = theirs.collect();
            let is_there = |name: &str| file.tensors().contains_key(name);
            let has_zeros = self.zero_biases && is_additive(&name);
            let weights = self.weights_of(&name);
            // A layer that is not in the file at all lacks its weight, too.
            let may_lack = |index: usize| {
                has_zeros
                    && weights
                        .get(index)
                        .is_none_or(|(weight, _)| is_there(weight))
            };
            let before = missing.len();
            for (index, theirs) in theirs.iter().enumerate() {
                if is_there(theirs) {
                    used.insert(theirs.clone());
                } else if !may_lack(index) {
                    missing.push(theirs.clone());
                }
            }
            if missing.len() == before {
                let data = assemble_parts(file, rules, &theirs, &weights, &shape)?;
                given.insert(name, data);
            }
        }
        if !missing.is_empty() {
            return Err(WeightsError::missing(&missing));
        }
        let is_unused = |name: &&String| {
            let dotted = format!(".{name}.");
            let mut ignored = self.ignored.iter();
            !used.contains(*name) && !ignored.any(|part| dotted.contains(part.as_str()))
        };
        let unused: Vec<&String> = file.tensors().keys().filter(is_unused).collect();
        if !unused.is_empty() {
            return Err(WeightsError::unused(unused));
        }
        file.check_unchanged()?;
        with_parameters(module, given)
    }

    /// Returns the names of the weights in the file that belong to the parts of a bias, and their
    /// arrangements; empty for another parameter.
    fn weights_of(&self, name: &str) -> Vec<(String, Kind)> {
        let weight = name
            .strip_suffix(".bias")
            .map(|layer| format!("{layer}.weight"));
        let rules = weight.and_then(|weight| self.of(&weight).ok());
        let (rules, number) = rules.unwrap_or_default();
        let weight = |rule: &Rule| (fill(&rule.theirs[0], number), rule.kind);
        rules.iter().map(weight).collect()
    }

    /// Checks that each rule is one for a parameter, except those that a layer without a bias and a
    /// norm without a shift do not need.
    fn check_parameters<'a>(
        &self,
        names: impl Iterator<Item = &'a String> + Clone,
    ) -> Result<(), WeightsError> {
        let is_there = |ours: &str| (names.clone()).any(|name| number(ours, name).is_some());
        let has_none = |rule: &&Rule| {
            let needs = rule
                .ours
                .replace(".bias", ".weight")
                .replace(".beta", ".gamma");
            !is_there(&rule.ours) && !is_there(&needs)
        };
        let is_numbered = |name: &str| name.contains("{i}");
        let is_malformed = |rule: &&Rule| is_numbered(&rule.theirs[0]) != is_numbered(&rule.ours);
        if let Some(Rule { theirs, ours, .. }) = self.all.iter().find(is_malformed) {
            let what = format!(
                "is read with a rule from {} to {ours}, but {{i}} must be in both names or in none",
                theirs[0]
            );
            return Err(WeightsError::File(what));
        }
        match self.all.iter().find(has_none) {
            None => Ok(()),
            Some(Rule { theirs, ours, .. }) => Err(WeightsError::File(format!(
                "is read with a rule from {} to {ours}, which is no parameter",
                theirs[0]
            ))),
        }
    }

    /// Returns the rules for the parts of a parameter, and the number that `{i}` stands for in its
    /// name.
    ///
    /// # Errors
    ///
    /// There is no rule for it, or more than one.
    fn of(&self, name: &str) -> Result<(&[Rule], Option<usize>), WeightsError> {
        let mut rules = self.all.iter().enumerate().filter_map(|(index, rule)| {
            let number = number(&rule.ours, name)?;
            Some((index, rule.our_part.of, number))
        });
        let Some((index, parts, number)) = rules.next() else {
            let what = format!("is read without a rule for the parameter {name}");
            return Err(WeightsError::File(what));
        };
        if rules.count() + 1 > parts {
            let what = format!("is read with several rules for the parameter {name}");
            return Err(WeightsError::File(what));
        }
        Ok((&self.all[index..][..parts], number))
    }
}

/// Returns the name of a linear layer's `weight` or `bias` in the file.
fn with_end(theirs: &str, end: &str) -> String {
    if theirs.contains("{p}") {
        theirs.replace("{p}", end)
    } else {
        format!("{theirs}.{end}")
    }
}

/// Returns whether a parameter of this name is added: the bias of a linear layer, or the shift of a
/// norm.
fn is_additive(name: &str) -> bool {
    name.ends_with(".bias") || name.ends_with(".beta")
}

/// Reads the tensors `theirs`, and puts them side by side into a parameter of this shape. `weights` are
/// the names and the arrangements of those that belong to the parts of a bias.
fn assemble_parts(
    file: &WeightsFile,
    rules: &[Rule],
    theirs: &[String],
    weights: &[(String, Kind)],
    shape: &[usize],
) -> Result<TensorData, WeightsError> {
    let width = shape.last().copied().unwrap_or(1);
    let mut first = 0;
    let mut found = Vec::new();
    for (index, (rule, name)) in rules.iter().zip(theirs).enumerate() {
        // The outputs of a linear layer. An absent bias is as wide as its weight.
        let outputs = |name: &String, kind: Kind| {
            let shape = &file.tensors().get(name)?.shape;
            let outputs = match kind {
                Kind::Linear => shape.first(),
                _ => shape.last(),
            };
            Some(outputs.copied().unwrap_or(1))
        };
        let of_weight = || outputs(&weights.get(index)?.0, weights[index].1);
        let Part { count, of, .. } = rule.their_part;
        let found_outputs = outputs(name, rule.kind).or_else(of_weight);
        let count = found_outputs.map_or(width, |outputs| outputs * count / of);
        let Some(info) = file.tensors().get(name) else {
            first += count;
            continue;
        };
        check_float(name, &info.dtype)?;
        let our_part = Part {
            first,
            count,
            of: width,
        };
        let rule = Rule {
            our_part,
            ..rule.clone()
        };
        let expected = rule.their_shape(shape);
        if first + count > width || !rule.fits(&info.shape, &expected) {
            return Err(WeightsError::Shape {
                name: name.clone(),
                expected,
                found: info.shape.clone(),
            });
        }
        first += count;
        found.push((rule, name));
    }
    if first != width {
        let what = format!(
            "has {first} outputs in {}, but the parameter has {width}",
            theirs.join(", ")
        );
        return Err(WeightsError::File(what));
    }
    let pieces: Pieces = found.iter().map(|(rule, name)| (rule, *name)).collect();
    pieces::read(file, &pieces, shape)
}

/// Matches a name with a pattern. Returns the number that `{i}` stands for, `Some(None)` if the
/// pattern has none; `None` if they do not match.
fn number(pattern: &str, name: &str) -> Option<Option<usize>> {
    let Some((before, after)) = pattern.split_once("{i}") else {
        return (pattern == name).then_some(None);
    };
    let middle = name.strip_prefix(before)?.strip_suffix(after)?;
    middle.parse().ok().map(Some)
}

fn fill(pattern: &str, number: Option<usize>) -> String {
    match number {
        Some(number) => pattern.replace("{i}", &number.to_string()),
        None => pattern.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_both_names() {
        assert_eq!(number("a.{i}.b", "a.12.b"), Some(Some(12)));
        assert_eq!(number("a.{i}.b", "a.x.b"), None);
        assert_eq!(number("a.{i}.b", "a.b"), None);
        assert_eq!(number("a.b", "a.b"), Some(None));
        assert_eq!(fill("c.{i}", Some(12)), "c.12");
    }
}
