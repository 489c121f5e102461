//! The structure of a file: its prefix, stacks and layers, found by the names of tensors.

use std::collections::{BTreeMap, BTreeSet};

use super::contents::Contents;
use super::expand::expand;
use super::layout::Layout;
use super::rule::Rule;

/// Names of tensors after renaming, mapped to their names in the file.
pub(super) type Names = BTreeMap<String, String>;

/// Maximum number of layers of a stack. A larger layer number comes from a damaged file, and would
/// exhaust the memory.
const MAX_LAYERS: usize = 1000;

/// The structure of a file, as the names of its tensors show it.
pub(super) struct Found {
    pub contents: Contents,
    /// Prefix of the layout's names in this file: see [`Recognised`](super::Recognised).
    pub prefix: String,
    /// Numbers of encoder and decoder layers.
    pub n_layers: [usize; 2],
    /// Whether the file holds a single stack without `encoder.` or `decoder.` in its names.
    pub is_bare: bool,
}

/// Returns the structure of a file, if it has the given layout.
///
/// The layout is recognised by the names of the self-attention weights of the first layer. Returns
/// `None` if the file has no such names.
///
/// `alone` is the only stack that the metadata describes, if there is one.
pub(super) fn find(layout: Layout, names: &Names, alone: Option<Contents>) -> Option<Found> {
    let family = layout.family();
    let inner = |name: &String| String::from(name.strip_prefix(family.core).unwrap_or(name));
    let first = |is_bare| -> [Option<String>; 2] {
        let rules = expand(layout, [1, 1], is_bare);
        ["encoder", "decoder"].map(|stack| {
            let ours = format!("{stack}.layers.0.self_attention.w_qkv.weight");
            let rule = rules.iter().find(|rule| rule.ours == ours);
            rule.map(|rule| inner(&rule.theirs[0]))
        })
    };
    let before = |end: &str| {
        let at_end = names.keys().filter_map(|name| name.strip_suffix(end));
        let whole = at_end.filter(|prefix| prefix.is_empty() || prefix.ends_with('.'));
        whole.min_by_key(|prefix| prefix.len()).map(String::from)
    };
    // The largest layer number in any name gives the number of layers, so that a layer without its
    // self-attention weights is noticed.
    let count = |prefix: &str, first: &str| {
        let (before, _) = first
            .split_once(".0.")
            .expect("names of layers have a number");
        let before = format!("{prefix}{before}.");
        let numbers = names.keys().filter_map(|name| {
            let (number, _) = name.strip_prefix(&before)?.split_once('.')?;
            number.parse::<usize>().ok()
        });
        let numbers: BTreeSet<usize> = numbers.collect();
        let last = numbers.last().map_or(0, |last| last.saturating_add(1));
        if last <= MAX_LAYERS {
            last
        } else {
            numbers.len().min(MAX_LAYERS)
        }
    };
    let both = first(false);
    if let Some(prefix) = both.iter().flatten().find_map(|name| before(name)) {
        let n_layers = both.map(|name| name.map_or(0, |name| count(&prefix, &name)));
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
    if family.contents != Contents::Model {
        return None;
    }
    let [name, _] = first(true);
    let name = name?;
    let prefix = before(&name)?;
    let n_layers = count(&prefix, &name);
    // Only decoders have cross-attention and a generator.
    let rules = expand(layout, [0, 1], true);
    let is_of_decoder = |rule: &&Rule| {
        rule.ours.contains(".cross_attention.w_o.") || rule.ours.contains(".generator.")
    };
    let is_there = |rule: &Rule| names.contains_key(&format!("{prefix}{}", inner(&rule.theirs[0])));
    let is_decoder = match alone {
        Some(alone) if family.is_own => alone == Contents::Decoder,
        _ => rules.iter().filter(is_of_decoder).any(is_there),
    };
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
