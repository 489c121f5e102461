//! Which layout a file's names are of.

use std::collections::{BTreeMap, BTreeSet};

use super::WeightsError;
use super::file::{TensorInfo, WeightsFile};
use super::import::{Contents, ImportOptions};
use super::layout::{self, CORE, Kind, Layout, Rule};

/// A file's names, matched with a layout.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// The layout.
    pub layout: Layout,
    /// What it holds of a model.
    pub contents: Contents,
    /// What stands before each name, as `module.`.
    pub prefix: String,
    /// The entry of the file's outermost dictionary in which the weights are.
    pub group: Option<String>,
    /// Names that the layout has and the file has not.
    pub missing: Vec<String>,
    /// Names that the file has, in the same dictionary, and the layout has not.
    pub unused: Vec<String>,
    /// Names of other tensors of the file, as an optimiser's.
    pub beside: Vec<String>,
    pub(super) n_layers: [usize; 2],
    /// Each rule with the name that the file has for it.
    pub(super) found: Vec<(Rule, Option<String>)>,
}

/// Matches the file's names with the layouts'.
///
/// # Errors
///
/// If they are none's.
pub fn recognise(file: &WeightsFile, options: &ImportOptions) -> Result<Recognised, WeightsError> {
    if file.tensors.is_empty() {
        return Err(WeightsError::File("has no tensors".into()));
    }
    let names = renamed(file, &options.rename)?;
    let layouts = options
        .layout
        .map_or(Layout::ALL.to_vec(), |layout| vec![layout]);
    let groups: BTreeSet<&Option<String>> = names.values().map(|(_, info)| &info.group).collect();
    // A whole module that was pickled is a dictionary of dictionaries: then the names count as a
    // whole.
    let groups = groups.into_iter().map(Some).chain([None]);
    for group in groups {
        let inside: BTreeMap<&str, &str> = names
            .iter()
            .filter(|(_, (_, info))| group.is_none_or(|group| info.group == *group))
            .map(|(name, (original, _))| {
                let group = group.and_then(Option::as_ref);
                let name = group.map_or(name.as_str(), |group| &name[group.len() + 1..]);
                (name, original.as_str())
            })
            .collect();
        for &layout in &layouts {
            if let Some(found) = find(layout, &inside) {
                let beside = names
                    .iter()
                    .filter(|(_, (_, info))| group.is_some_and(|group| info.group != *group));
                let beside = beside.map(|(name, _)| name.clone()).collect();
                let group = group.cloned().flatten();
                return Ok(matched(layout, found, group, &inside, beside));
            }
        }
    }
    let first: Vec<String> = names.keys().take(3).cloned().collect();
    Err(WeightsError::Unrecognised {
        layout: options.layout,
        first: first.join(", "),
        count: names.len(),
    })
}

type Names = BTreeMap<String, (String, TensorInfo)>;

/// The file's tensors by the names that they are to have, with those that they have.
fn renamed(file: &WeightsFile, rename: &[(String, String)]) -> Result<Names, WeightsError> {
    let mut names: Names = file
        .tensors
        .iter()
        .map(|(name, info)| (name.clone(), (name.clone(), info.clone())))
        .collect();
    for (from, to) in rename {
        let entry = names.remove(from).ok_or_else(|| WeightsError::Missing {
            name: from.clone(),
            others: 0,
        })?;
        if names.insert(to.clone(), entry).is_some() {
            let what = format!("has a tensor {to} already, as which {from} was to be renamed");
            return Err(WeightsError::File(what));
        }
    }
    Ok(names)
}

/// What a layout's names say of a file.
struct Found {
    contents: Contents,
    prefix: String,
    n_layers: [usize; 2],
    /// A stack without its own name before its names.
    is_bare: bool,
}

/// By the name of a self-attention.
fn find(layout: Layout, names: &BTreeMap<&str, &str>) -> Option<Found> {
    let first = |is_bare| -> [String; 2] {
        let rules = layout::expand(layout, [1, 1], is_bare);
        ["encoder", "decoder"].map(|stack| {
            let ours = format!("{stack}.layers.0.self_attention.w_qkv.weight");
            let rule = rules.iter().find(|rule| rule.ours == ours);
            inner(&rule.expect("a table has all").theirs[0])
        })
    };
    let before = |end: &str| {
        let at_end = names.keys().filter_map(|name| name.strip_suffix(end));
        let whole = at_end.filter(|prefix| prefix.is_empty() || prefix.ends_with('.'));
        whole.min_by_key(|prefix| prefix.len()).map(String::from)
    };
    let count = |prefix: &str, first: &str| {
        let (before, after) = first.split_once("layers.0.").expect("layers have numbers");
        let before = format!("{prefix}{before}layers.");
        let numbers = names.keys().filter_map(|name| {
            let rest = name.strip_prefix(&before)?.strip_suffix(after)?;
            rest.strip_suffix('.')?.parse::<usize>().ok()
        });
        numbers.collect::<BTreeSet<_>>().len()
    };
    let [encoder, decoder] = first(false);
    if let Some(prefix) = before(&encoder).or_else(|| before(&decoder)) {
        let n_layers = [count(&prefix, &encoder), count(&prefix, &decoder)];
        return Some(Found {
            contents: match n_layers {
                [0, _] => Contents::Decoder,
                [_, 0] => Contents::Encoder,
                _ => Contents::Model,
            },
            prefix,
            n_layers,
            is_bare: false,
        });
    }
    let [alone, _] = first(true);
    let prefix = before(&alone)?;
    let n_layers = count(&prefix, &alone);
    // Only decoders attend to a memory.
    let rules = layout::expand(layout, [0, 1], true);
    let cross = rules
        .iter()
        .find(|rule| rule.ours.ends_with("cross_attention.w_o.weight"));
    let cross = inner(&cross.expect("a table has all").theirs[0]);
    let is_decoder = names.contains_key(format!("{prefix}{cross}").as_str());
    Some(Found {
        contents: if is_decoder {
            Contents::Decoder
        } else {
            Contents::Encoder
        },
        prefix,
        n_layers: if is_decoder {
            [0, n_layers]
        } else {
            [n_layers, 0]
        },
        is_bare: true,
    })
}

/// A name inside `torch.nn.Transformer`, or any other.
fn inner(name: &str) -> String {
    name.strip_prefix(CORE).unwrap_or(name).into()
}

fn matched(
    layout: Layout,
    found: Found,
    group: Option<String>,
    names: &BTreeMap<&str, &str>,
    beside: Vec<String>,
) -> Recognised {
    let Found {
        contents,
        prefix,
        n_layers,
        is_bare,
    } = found;
    // What is around a `torch.nn.Transformer` stands before its name, or before nothing.
    let outer = match prefix.trim_end_matches('.').rsplit_once('.') {
        _ if prefix.is_empty() => String::new(),
        Some((outer, _)) => format!("{outer}."),
        None => String::new(),
    };
    let candidates = |name: &String| match (layout, name.strip_prefix(CORE)) {
        (Layout::TorchNn, Some(inner)) => vec![format!("{prefix}{inner}")],
        (Layout::TorchNn, None) => vec![format!("{outer}{name}"), format!("{prefix}{name}")],
        _ => vec![format!("{prefix}{name}")],
    };
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    for rule in layout::expand(layout, n_layers, is_bare) {
        let mut all = rule.theirs.iter().flat_map(candidates);
        let there = all.find(|name| names.contains_key(name.as_str()));
        let original = there.as_ref().map(|name| names[name.as_str()].to_string());
        used.extend(there);
        found.push((rule, original));
    }
    let has_final_norm = found
        .iter()
        .any(|(rule, name)| rule.ours.contains(".final_norm.") && name.is_some());
    let may_lack = |rule: &Rule| {
        let is = |part: &str| rule.ours.ends_with(part);
        matches!(rule.kind, Kind::Positions(_))
            || is("input.position.Learned.weight")
            // Shared with another, or the layer has none.
            || is("decoder.generator.weight")
            || is("decoder.generator.bias")
            || is("encoder.input.embedding.weight")
            || (rule.ours.contains(".final_norm.")
                && !has_final_norm
                && matches!(layout, Layout::Native | Layout::TorchNn | Layout::Marian))
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
    let unused = names.keys().filter(|name| !used.contains(**name));
    Recognised {
        layout,
        contents,
        group,
        missing: missing.into_iter().collect(),
        unused: unused.map(ToString::to_string).collect(),
        beside,
        n_layers,
        found,
        prefix,
    }
}
