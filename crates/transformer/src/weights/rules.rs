//! Rules of one's own: where the parameters of a module are in the file of another implementation.

mod read;

use super::rule::{Kind, Part, Rule};

/// Rules that say which tensors of a file are which parameters of a module.
///
/// In names, `{i}` stands for any number, the same one in both names of a rule. Tensors in f16,
/// bf16, f32 or f64 are read. In a checkpoint whose weights are one entry of a dictionary, names begin
/// with the key of this entry, such as `model.layers.0.`. Only shapes are checked: that a square matrix is `[in, out]` or `[out,
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
///
/// What rules cannot say is changed before they apply, in memory. GPT-NeoX and BLOOM interleave queries,
/// keys and values by head:
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use transformer::weights::{Parameters, Rules, WeightsFile, to_bytes};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = Device::flex();
/// # let weight = Tensor::<1>::from_floats([1., 2., 3., 4., 5., 6.], &device).reshape([6, 1]);
/// # let tensors = Parameters::from([("qkv.weight".into(), Tensor::<2>::into_data(weight))]);
/// # let (file, n_heads, d_head) = (WeightsFile::from_bytes(to_bytes(&tensors)?)?, 2, 1);
///
/// let mut tensors = Parameters::new();
/// for name in file.tensors().keys() {
///     let mut data = file.read(name)?;
///     if name.ends_with("qkv.weight") {
///         // `[H * 3 * K, D]` becomes `[3 * H * K, D]`.
///         let weight = Tensor::<2>::from_data(data, &device);
///         let [width, d_model] = weight.dims();
///         let by_head = weight.reshape([n_heads, 3, d_head, d_model]);
///         data = by_head.swap_dims(0, 1).reshape([width, d_model]).into_data();
///     }
///     tensors.insert(name.clone(), data);
/// }
/// let file = WeightsFile::from_bytes(to_bytes(&tensors)?)?;
/// # assert_eq!(file.read("qkv.weight")?.iter::<f32>().collect::<Vec<_>>(), [1., 4., 2., 5., 3., 6.]);
/// let rules = Rules::new().linear("qkv", "self_attention.w_qkv");
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
    pub fn in_out(mut self) -> Self {
        self.weight = Kind::Same;
        self
    }

    /// Lets the rules that follow be for modules of Burn: the weights of linear layers are `[in, out]`,
    /// and norms have `gamma` and `beta`.
    ///
    /// ```
    /// # use transformer::weights::Rules;
    /// // The encoder of burn-nn. With `norm_first`, norm_2 is the attention's, and norm_1 the other.
    /// let rules = Rules::new()
    ///     .as_in_burn()
    ///     .within("layers.{i}.", "layers.{i}.")
    ///     .packed(&["mha.query", "mha.key", "mha.value"], "self_attention.w_qkv")
    ///     .linear("mha.output", "self_attention.w_o")
    ///     .linear("pwff.linear_inner", "feed_forward.w_1")
    ///     .linear("pwff.linear_outer", "feed_forward.w_2")
    ///     .norm("norm_1", "self_attention_residual.norm")
    ///     .norm("norm_2", "feed_forward_residual.norm");
    /// ```
    pub fn as_in_burn(self) -> Self {
        self.in_out().with_norm_names("gamma", "beta")
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

    /// Adds the rules for scale and shift of a norm, `.weight` and `.bias` in the file, or `.gamma` and
    /// `.beta` after [`as_in_burn`](Self::as_in_burn).
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

    /// Leaves out the tensors whose names have `part` between dots, and that no rule reads: `cls` leaves out `cls.weight`
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
}

/// Returns the name of a linear layer's `weight` or `bias` in the file.
fn with_end(theirs: &str, end: &str) -> String {
    if theirs.contains("{p}") {
        theirs.replace("{p}", end)
    } else {
        format!("{theirs}.{end}")
    }
}
