//! The rules of a layout: the correspondence of its tensors and this crate's parameters.

/// Prefix of names inside `torch.nn.Transformer` in the tables of rules; files may have another
/// prefix.
pub(in crate::weights) const CORE: &str = "transformer.";

/// Consecutive parts of a packed parameter, which consists of `of` equal parts along its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::weights) struct Part {
    /// Index of the first part, from 0.
    pub first: usize,
    /// Number of parts.
    pub count: usize,
    /// Number of parts of the whole parameter.
    pub of: usize,
}

impl Part {
    /// The whole parameter.
    pub const WHOLE: Self = Self {
        first: 0,
        count: 1,
        of: 1,
    };
}

/// The arrangement of a tensor's elements in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::weights) enum Kind {
    /// The arrangement of this crate.
    Same,
    /// The weight of a linear layer: `[out, in]` in the layout, `[in, out]` in this crate.
    Linear,
    /// A vector that may have leading axes of size 1 in the layout. Export writes the given number
    /// of them.
    Vector(usize),
    /// A position table `[max_len, D]`, in the layout with an axis of size 1 before the given axis.
    Positions(Option<usize>),
}

/// The correspondence of a tensor in a layout and a parameter of this crate.
///
/// In names, `{s}` stands for `encoder` or `decoder`, and `{i}` for the index of a layer.
#[derive(Clone, Debug)]
pub(in crate::weights) struct Rule {
    /// Names in the layout. Import accepts all of them, export writes the first.
    pub theirs: Vec<String>,
    /// Name in this crate.
    pub ours: String,
    /// Arrangement in the layout.
    pub kind: Kind,
    /// Part of the tensor in the layout.
    pub their_part: Part,
    /// Part of the parameter in this crate.
    pub our_part: Part,
}

impl Rule {
    /// Returns the rule for one stack and one of its layers.
    pub fn of(&self, stack: &str, layer: usize) -> Self {
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

    /// Returns the shape in the layout of a parameter that has `shape` in this crate.
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

    /// Calls `pair` with the index of each element in the layout and in this crate, for a parameter
    /// that has `shape` in this crate.
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

    /// Returns whether a tensor of shape `found` can be read where the layout has `expected`.
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
