//! Reading a file by rules of one's own.

use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::TensorData;

use super::Rules;
use crate::weights::element::check_float;
use crate::weights::error::WeightsError;
use crate::weights::file::WeightsFile;
use crate::weights::parameters::{Parameters, shapes, with_parameters};
use crate::weights::pieces::{self, Pieces};
use crate::weights::rule::{Kind, Part, Rule};

impl Rules {
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
        let read = self.read_parameters(file, module);
        read.map_err(|error| file.error(error))
    }

    fn read_parameters<M: Module>(
        &self,
        file: &WeightsFile,
        module: &M,
    ) -> Result<M, WeightsError> {
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
                let data = assemble_parts(file, &name, rules, &theirs, &weights, &shape)?;
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

/// Returns whether a parameter of this name is added: the bias of a linear layer, or the shift of a
/// norm.
fn is_additive(name: &str) -> bool {
    name.ends_with(".bias") || name.ends_with(".beta")
}

/// Reads the tensors `theirs`, and puts them side by side into the parameter `ours` of this shape. `weights` are
/// the names and the arrangements of those that belong to the parts of a bias.
fn assemble_parts(
    file: &WeightsFile,
    ours: &str,
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
        let is_whole = rules.len() == 1 && of == 1;
        let outputs_of_part = found_outputs.filter(|_| !is_whole);
        let count = outputs_of_part.map_or(width, |outputs| outputs * count / of);
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
        if !rule.fits(&info.shape, &expected) {
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
            "has {first} outputs of {ours} in {}, but the parameter has {width}",
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
