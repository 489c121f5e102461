//! The structure of a file: its prefix, stacks and layers, found by the names of tensors.

use std::collections::{BTreeMap, BTreeSet};

use super::contents::Contents;
use super::expand::expand;
use super::families::Layout;

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
pub(super) fn find(layout: Layout, names: &Names) -> Option<Found> {
    let first = |is_bare| -> [String; 2] {
        let rules = expand(layout, [1, 1], is_bare);
        ["encoder", "decoder"].map(|stack| {
            let ours = format!("{stack}.layers.0.self_attention.w_qkv.weight");
            let rule = rules.iter().find(|rule| rule.ours == ours);
            inner(layout, &rule.expect("every layout has this rule").theirs[0])
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
    // Only decoders have cross-attention.
    let rules = expand(layout, [0, 1], true);
    let cross = rules
        .iter()
        .find(|rule| rule.ours.ends_with("cross_attention.w_o.weight"));
    let cross = inner(
        layout,
        &cross.expect("every layout has this rule").theirs[0],
    );
    let is_decoder = names.contains_key(&format!("{prefix}{cross}"));
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

/// Returns a name without the prefix of names inside the layout's inner module.
fn inner(layout: Layout, name: &str) -> String {
    let core = layout.family().core;
    name.strip_prefix(core).unwrap_or(name).into()
}
