//! The rules of a layout: which of its tensors corresponds to which parameter of this crate.

/// Number of f32 elements in a cache line of 64 bytes.
const LINE: usize = 16;

/// Consecutive parts of a packed parameter.
///
/// The whole parameter consists of `of` equal parts along its output axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
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
pub(super) enum Kind {
    /// The same arrangement as in this crate, of which a file may have leading axes of size 1.
    Same,
    /// The weight of a linear layer: `[out, in]` in the layout, `[in, out]` in this crate.
    Linear,
    /// A vector that may have leading axes of size 1 in a file. The field is the number of these
    /// axes in an exported file.
    Vector(usize),
    /// A position table `[max_len, D]`. The field is the index of an additional axis of size 1 in
    /// the layout; `None` means no additional axis.
    Positions(Option<usize>),
}

/// The correspondence between a tensor in a layout and a parameter of this crate.
///
/// In names, `{s}` stands for `encoder` or `decoder`, and `{i}` for the index of a layer.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Names of the tensor in the layout. Import accepts all names, export writes the first.
    pub theirs: Vec<String>,
    /// Name of the parameter in this crate.
    pub ours: String,
    /// Arrangement of the elements in the layout.
    pub kind: Kind,
    /// Part of the layout's tensor to which the rule applies.
    pub their_part: Part,
    /// Part of this crate's parameter to which the rule applies.
    pub our_part: Part,
}

impl Rule {
    /// Returns the rule with the given stack and layer instead of `{s}` and `{i}`.
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

    /// Returns the name of the stack that has the parameter.
    pub fn stack(&self) -> &str {
        self.ours.split('.').next().unwrap_or_default()
    }

    /// Sets the parts of packed queries, keys and values, which have different widths with grouped
    /// queries: those of `n_heads` query heads and `n_kv_heads` key-value heads.
    pub fn set_heads(&mut self, n_heads: usize, n_kv_heads: usize) {
        let Part { first, count, of } = self.our_part;
        if of == 3 && self.ours.contains(".self_attention.w_qkv.") {
            let start = |part| [0, n_heads, n_heads + n_kv_heads, n_heads + 2 * n_kv_heads][part];
            self.our_part = Part {
                first: start(first),
                count: start(first + count) - start(first),
                of: start(3),
            };
        }
    }

    /// Returns the shape of the layout's tensor for a parameter that has `shape` in this crate.
    pub fn their_shape(&self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        let unit = shape.last().map_or(0, |width| width / self.our_part.of);
        if let Some(width) = shape.last_mut() {
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

    /// Returns whether the rule has the kind `Same`, and applies to the whole tensor and the whole
    /// parameter.
    pub fn is_identity(&self) -> bool {
        self.kind == Kind::Same && self.their_part == Part::WHOLE && self.our_part == Part::WHOLE
    }

    /// Calls `pair(there, here)` for each element of the parts in this rule.
    ///
    /// `there` is the index of the element in the layout's tensor, and `here` its index in this
    /// crate's parameter, which has shape `shape`.
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

    /// Returns the size of the last axis of the layout's tensor for a parameter of shape `shape`.
    pub fn their_width(&self, shape: &[usize]) -> usize {
        self.their_shape(shape).last().copied().unwrap_or(1)
    }

    /// Copies `rows`, consecutive rows of the layout's tensor from the index `first` on, to their
    /// places in the parameter `values`, which has shape `shape`.
    pub fn place(&self, shape: &[usize], first: usize, rows: &[f32], values: &mut [f32]) {
        let width = shape.last().copied().unwrap_or(1);
        let unit = width / self.our_part.of;
        let count = unit * self.our_part.count;
        let ours = unit * self.our_part.first;
        let their_unit = count / self.their_part.count;
        let theirs = their_unit * self.their_part.first;
        let their_width = self.their_width(shape).max(1);
        if self.kind != Kind::Linear {
            for (row, given) in (first..).zip(rows.chunks_exact(their_width)) {
                let to = &mut values[row * width + ours..][..count];
                to.copy_from_slice(&given[theirs..][..count]);
            }
            return;
        }
        // Each row of the layout's tensor becomes a column of the parameter. Copying several
        // columns at once fills whole cache lines.
        let n_rows = rows.len() / their_width;
        let meant = theirs.max(first)..(theirs + count).min(first + n_rows);
        for start in meant.clone().step_by(LINE) {
            let columns = start..meant.end.min(start + LINE);
            let (from, to) = (start - first, ours + start - theirs);
            for input in 0..their_width {
                let line = &mut values[input * width + to..][..columns.len()];
                for (index, value) in line.iter_mut().enumerate() {
                    *value = rows[(from + index) * their_width + input];
                }
            }
        }
    }

    /// Returns whether import accepts a tensor of shape `found` where the layout has `expected`.
    pub fn fits(&self, found: &[usize], expected: &[usize]) -> bool {
        let without_ones = |shape: &[usize]| -> Vec<usize> {
            shape.iter().copied().filter(|&axis| axis != 1).collect()
        };
        match self.kind {
            Kind::Same => {
                let more = found.len().saturating_sub(expected.len());
                let (ones, rest) = found.split_at(more);
                rest == expected && ones.iter().all(|&axis| axis == 1)
            }
            Kind::Linear => found == expected,
            Kind::Vector(_) | Kind::Positions(_) => {
                found.last() == expected.last() && without_ones(found) == without_ones(expected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_placed_like_single_elements() {
        let part = |first, count, of| Part { first, count, of };
        let parts = [
            (Part::WHOLE, Part::WHOLE),
            (Part::WHOLE, part(1, 1, 3)),
            (part(1, 2, 3), Part::WHOLE),
            (part(0, 1, 3), part(1, 1, 2)),
        ];
        for kind in [Kind::Linear, Kind::Same, Kind::Vector(0)] {
            for (their_part, our_part) in parts {
                let rule = Rule {
                    theirs: Vec::new(),
                    ours: String::new(),
                    kind,
                    their_part,
                    our_part,
                };
                let shape = match kind {
                    Kind::Vector(_) => vec![36],
                    _ => vec![7, 36],
                };
                let theirs = rule.their_shape(&shape);
                let given: Vec<f32> = (1..=theirs.iter().product())
                    .map(|x: usize| x as f32)
                    .collect();
                let mut expected = vec![0.0; shape.iter().product()];
                rule.for_each_pair(&shape, |there, here| expected[here] = given[there]);
                let width = rule.their_width(&shape);
                for rows in [1, 5, 17, 100] {
                    let mut found = vec![0.0; expected.len()];
                    let mut first = 0;
                    for some in given.chunks(rows * width) {
                        rule.place(&shape, first, some, &mut found);
                        first += some.len() / width;
                    }
                    assert_eq!(found, expected, "{rule:?}, {rows} rows at a time");
                }
            }
        }
    }
}
