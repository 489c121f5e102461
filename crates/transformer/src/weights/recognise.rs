//! Recognises a file's layout by the names of its tensors.

use std::collections::BTreeSet;

use super::contents::Contents;
use super::error::WeightsError;
use super::expand::expand;
use super::file::WeightsFile;
use super::found::{Found, Names, find};
use super::header::TensorInfo;
use super::layout::Layout;
use super::options::ImportOptions;
use super::rule::{Kind, Rule};
use super::stacks::{DECODER, ENCODER};
use crate::choice::Choice;

/// The structure of a file: its layout, and the tensors that match the layout's names.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// Layout of the file.
    pub layout: Layout,
    /// The part of a model that the file holds.
    pub contents: Contents,
    /// Prefix of the layout's names in this file, such as `module.`. For
    /// [`TorchNn`](Layout::TorchNn), it is the prefix of the names inside the
    /// `torch.nn.Transformer`, such as `module.transformer.`.
    pub prefix: String,
    /// Entry of the file's outermost dictionary that holds the weights. `None` if no single entry
    /// holds them.
    pub group: Option<String>,
    /// Names that the layout requires and the file lacks.
    pub missing: Vec<String>,
    /// Names of tensors in `group` that the layout does not have, except tensors that the library
    /// `transformers` ignores.
    pub unused: Vec<String>,
    /// Names of the tensors outside `group`, such as the tensors of an optimiser.
    pub beside: Vec<String>,
    /// Tensors that belong to no stack, by their names in the library, with those in the file.
    pub(super) others: Vec<(String, String)>,
    /// Numbers of encoder and decoder layers.
    pub(super) n_layers: [usize; 2],
    /// Each rule of the layout, with the name of its tensor in the file; `None` if the file lacks
    /// the tensor.
    pub(super) found: Vec<(Rule, Option<String>)>,
}

/// Usual names of the entry that holds the weights in a checkpoint with several entries.
const USUAL: [&str; 3] = ["model", "state_dict", "model_state_dict"];

/// Recognises the layout of a file by the names of its tensors.
///
/// # Errors
///
/// The file has no tensors, the names do not match the requested layout or any layout, or several
/// entries of the file hold weights and none has a usual name. An entry or a tensor that `options`
/// names is not in the file, or the new name of a tensor is already that of another one.
pub fn recognise(file: &WeightsFile, options: &ImportOptions) -> Result<Recognised, WeightsError> {
    if file.tensors.is_empty() {
        return Err(WeightsError::File("has no tensors".into()));
    }
    let entries = Entries::new(file, &options.rename)?;
    let layouts = options
        .layout
        .map_or(Layout::ALL.to_vec(), |layout| vec![layout]);
    let described = [ENCODER, DECODER].map(|stack| file.metadata.contains_key(stack));
    let alone = match described {
        [true, false] => Some(Contents::Encoder),
        [false, true] => Some(Contents::Decoder),
        _ => None,
    };
    let of = |group: Option<&Option<String>>| {
        let names = entries.names(group);
        layouts.iter().find_map(|&layout| {
            if let Some(mark) = layout.family().mark {
                // In a file of one stack, the name of the stack is missing.
                let bare = mark.trim_start_matches("coder.");
                let is_marked = |name: &String| name.ends_with(mark) || name == bare;
                if !names.keys().any(is_marked) {
                    return None;
                }
            }
            let found = find(layout, &names, alone)?;
            let beside = entries.beside(group);
            Some(matched(
                layout,
                found,
                group.cloned().flatten(),
                &names,
                beside,
            ))
        })
    };
    if let Some(entry) = &options.entry {
        let group = Some(entry.clone());
        if !entries.groups().contains(&group) {
            let known: Vec<String> = entries.groups().into_iter().flatten().collect();
            let what = format!(
                "has no entry {entry} that is a dictionary of tensors; those are [{}], and one with two names has the first",
                known.join(", ")
            );
            return Err(WeightsError::File(what));
        }
        return of(Some(&group)).ok_or_else(|| entries.unrecognised(options.layout));
    }
    // The outermost dictionary of a file can hold one model under several keys, for example one for
    // the encoder and one for the decoder. So the names under all keys are matched together first,
    // and only then the names under each key alone.
    let whole = of(None);
    let is_all = |known: &Recognised| {
        known.contents == Contents::Model && known.missing.is_empty() && known.unused.is_empty()
    };
    if let Some(known) = whole.clone().filter(is_all) {
        return Ok(known);
    }
    let mut known: Vec<Recognised> = entries
        .groups()
        .iter()
        .filter_map(|g| of(Some(g)))
        .collect();
    if known.iter().any(|known| known.contents == Contents::Model) {
        known.retain(|known| known.contents == Contents::Model);
    } else if let Some(whole) = whole.filter(|whole| whole.contents == Contents::Model) {
        return Ok(whole);
    }
    let usual = USUAL.iter().find_map(|usual| {
        let is_usual = |known: &Recognised| known.group.as_deref() == Some(usual);
        known.iter().position(is_usual)
    });
    match (usual, known.len()) {
        (Some(index), _) => Ok(known.swap_remove(index)),
        (None, 0) => Err(entries.unrecognised(options.layout)),
        (None, 1) => Ok(known.swap_remove(0)),
        (None, _) => {
            let names = known.iter().filter_map(|known| known.group.clone());
            Err(WeightsError::Ambiguous {
                entries: names.collect::<Vec<_>>().join(", "),
            })
        }
    }
}

/// The names of one tensor of the file.
struct Entry {
    /// Name within `group`, after renaming.
    name: String,
    /// Name in the file.
    original: String,
    group: Option<String>,
}

/// All tensors of a file, with their names after renaming.
struct Entries(Vec<Entry>);

impl Entries {
    fn new(file: &WeightsFile, rename: &[(String, String)]) -> Result<Self, WeightsError> {
        let entry = |(original, info): (&String, &TensorInfo)| {
            let inside = info.group.as_ref().map_or(0, |group| group.len() + 1);
            Entry {
                name: original[inside..].into(),
                original: original.clone(),
                group: info.group.clone(),
            }
        };
        let mut all: Vec<Entry> = file.tensors.iter().map(entry).collect();
        for (from, to) in rename {
            // `from` is either the whole name of a tensor or a name within an entry. The latter
            // renames the tensors of this name in all entries.
            let is_whole = all.iter().any(|entry| entry.original == *from);
            let is_meant = |entry: &Entry| {
                if is_whole {
                    entry.original == *from
                } else {
                    entry.name == *from
                }
            };
            let meant: Vec<usize> = (0..all.len()).filter(|&i| is_meant(&all[i])).collect();
            if meant.is_empty() {
                return Err(WeightsError::missing([from]));
            }
            for index in meant {
                let group = all[index].group.clone();
                let mut others = all.iter().filter(|entry| entry.group == group);
                if others.any(|entry| entry.name == *to) {
                    let what = format!(
                        "has a tensor {to} already, so that {from} cannot be renamed to it"
                    );
                    return Err(WeightsError::File(what));
                }
                all[index].name.clone_from(to);
            }
        }
        Ok(Self(all))
    }

    /// Returns the names of the file's entries; `None` stands for the tensors that are not in an
    /// entry.
    fn groups(&self) -> BTreeSet<Option<String>> {
        self.0.iter().map(|entry| entry.group.clone()).collect()
    }

    /// Returns the names of the tensors in `group`, mapped to their names in the file.
    ///
    /// `Some(&None)` stands for the tensors that are not in an entry. If `group` is `None`, returns
    /// the names of all tensors, each with its group before it.
    fn names(&self, group: Option<&Option<String>>) -> Names {
        let in_group = |entry: &&Entry| group.is_none_or(|group| entry.group == *group);
        let name = |entry: &Entry| {
            let name = match (group, &entry.group) {
                (None, Some(group)) => format!("{group}.{}", entry.name),
                _ => entry.name.clone(),
            };
            (name, entry.original.clone())
        };
        self.0.iter().filter(in_group).map(name).collect()
    }

    /// Returns the names of all tensors outside `group`, as they are in the file. If `group` is
    /// `None`, no tensor is outside it.
    fn beside(&self, group: Option<&Option<String>>) -> Vec<String> {
        let outside = |entry: &&Entry| group.is_some_and(|group| entry.group != *group);
        let outside = self.0.iter().filter(outside);
        outside.map(|entry| entry.original.clone()).collect()
    }

    /// Returns the error for a file whose names do not match the requested `layout`, or match no
    /// layout if `layout` is `None`.
    fn unrecognised(&self, layout: Option<Layout>) -> WeightsError {
        let first = self.0.iter().take(3).map(|entry| entry.original.as_str());
        WeightsError::Unrecognised {
            layout,
            first: first.collect::<Vec<_>>().join(", "),
            count: self.0.len(),
        }
    }
}

/// Matches the rules of a layout with the names of a file.
fn matched(
    layout: Layout,
    found: Found,
    group: Option<String>,
    names: &Names,
    beside: Vec<String>,
) -> Recognised {
    let Found {
        contents,
        prefix,
        n_layers,
        is_bare,
    } = found;
    // If the layout has an inner module, `prefix` ends with the module's field name. The names of
    // tensors outside the module lack it: if `prefix` is `module.transformer.`, `outer` is `module.`.
    let family = layout.family();
    let outer = match prefix.trim_end_matches('.').rsplit_once('.') {
        _ if prefix.is_empty() => String::new(),
        Some((outer, _)) => format!("{outer}."),
        None => String::new(),
    };
    let candidates = |name: &String| match name.strip_prefix(family.core) {
        Some(inner) => vec![format!("{prefix}{inner}")],
        None => vec![format!("{outer}{name}"), format!("{prefix}{name}")],
    };
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    for rule in expand(layout, n_layers, is_bare) {
        let mut all = rule.theirs.iter().flat_map(candidates);
        let there = all.find(|name| names.contains_key(name));
        let original = there.as_ref().map(|name| names[name].clone());
        used.extend(there);
        found.push((rule, original));
    }
    // A PyTorch model with `bias=False` has no biases, neither in linear layers nor in norms.
    // An RMS norm has no shift, even if linear layers have biases.
    let has = |end: &str| {
        let is = |rule: &Rule| is_bias(&rule.ours) && rule.ours.ends_with(end);
        let mut found = found.iter();
        found.any(|(rule, name)| is(rule) && name.is_some())
    };
    let has_biases = has(".bias");
    let has_shifts = has(".beta");
    // Parameters of an optional kind are all there or all missing, in each stack. A decoder alone may
    // lack cross-attention.
    let kinds = family
        .optional
        .iter()
        .filter(|part| contents == Contents::Decoder || **part != ".cross_attention");
    let is_of = |rule: &Rule, (stack, part): &(&str, &str)| {
        let is = rule.ours.contains(part) || rule.theirs[0].contains(part);
        is && rule.stack() == *stack
    };
    let mut absent: Vec<(&str, &str)> = kinds
        .flat_map(|&part| [(ENCODER, part), (DECODER, part)])
        .collect();
    absent.retain(|kind| {
        let mut found = found.iter();
        !found.any(|(rule, name)| name.is_some() && is_of(rule, kind))
    });
    let may_lack = |rule: &Rule| {
        let is = |part: &str| rule.ours.ends_with(part);
        matches!(rule.kind, Kind::Positions(_))
            || is("input.position.learned.weight")
            // Files may lack shared matrices, and the generator may have no bias.
            || is("decoder.generator.weight")
            || is("decoder.generator.bias")
            || is("encoder.input.embedding.weight")
            || absent.iter().any(|kind| is_of(rule, kind))
            || (is_bias(&rule.ours) && is(".bias") && !has_biases)
            || (is_bias(&rule.ours) && is(".beta") && !has_shifts)
    };
    let given: BTreeSet<(String, usize)> = found
        .iter()
        .filter(|(_, name)| name.is_some())
        .map(|(rule, _)| (rule.ours.clone(), rule.our_part.first))
        .collect();
    let missing: BTreeSet<String> = found
        .iter()
        .filter(|(rule, name)| {
            let part = (rule.ours.clone(), rule.our_part.first);
            name.is_none() && !may_lack(rule) && !given.contains(&part)
        })
        .map(|(rule, _)| candidates(&rule.theirs[0])[0].clone())
        .collect();
    let inner = |name: &String| name.strip_prefix(&prefix).unwrap_or(name).to_string();
    let has_part = |parts: &[&str], name: &str| parts.iter().any(|part| name.contains(part));
    let others: Vec<(String, String)> = (names.iter())
        .map(|(name, original)| (inner(name), original.clone()))
        .filter(|(name, _)| has_part(family.others, name))
        .collect();
    let unused = names.keys().filter(|name| {
        let is_known = has_part(family.ignores, name) || has_part(family.others, name);
        !used.contains(*name) && !is_known
    });
    Recognised {
        layout,
        contents,
        group,
        missing: missing.into_iter().collect(),
        unused: unused.cloned().collect(),
        beside,
        others,
        n_layers,
        found,
        prefix: match prefix.strip_suffix(family.core) {
            Some(outer) if layout.is_hugging_face() => outer.into(),
            _ => prefix,
        },
    }
}

/// Returns whether a parameter is the bias of a linear layer or the shift of a norm. The bias of
/// the generator does not count.
pub(super) fn is_bias(ours: &str) -> bool {
    let is_inside =
        ours.contains(".layers.") || ours.contains(".final_norm.") || ours.contains(".input.norm.");
    is_inside && (ours.ends_with(".bias") || ours.ends_with(".beta"))
}
