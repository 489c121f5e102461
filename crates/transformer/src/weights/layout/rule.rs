//! The lines of a layout's table.

/// Stands in the tables before what is inside `torch.nn.Transformer`, whatever it is called there.
pub(in crate::weights) const CORE: &str = "transformer.";

/// Some of the equal parts that a packed parameter consists of, along the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::weights) struct Part {
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
pub(in crate::weights) enum Kind {
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
pub(in crate::weights) struct Rule {
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
