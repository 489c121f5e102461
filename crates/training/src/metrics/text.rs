//! Words and n-grams of a text.

use std::collections::HashMap;
use std::hash::Hash;

/// Returns whether a character is white space for Python's `str.split`, which sacreBLEU uses.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Returns the words of a text, which are separated by white space.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Returns how often each sequence of `n` consecutive items occurs.
pub(super) fn n_grams<T: Hash + Eq>(items: &[T], n: usize) -> HashMap<&[T], u64> {
    let mut counts = HashMap::new();
    for n_gram in items.windows(n) {
        *counts.entry(n_gram).or_insert(0) += 1;
    }
    counts
}

/// Returns the number of n-grams that `a` and `b` have in common. Each n-gram counts with the
/// smaller of its two counts.
pub(super) fn matches<K: Hash + Eq>(a: &HashMap<K, u64>, b: &HashMap<K, u64>) -> u64 {
    let in_both = |(n_gram, &n): (&K, &u64)| n.min(*b.get(n_gram).unwrap_or(&0));
    a.iter().map(in_both).sum()
}

/// Returns each n-gram with the larger of its counts in `a` and `b`.
pub(super) fn merge_largest<K: Hash + Eq>(
    mut a: HashMap<K, u64>,
    b: HashMap<K, u64>,
) -> HashMap<K, u64> {
    for (n_gram, n) in b {
        let count = a.entry(n_gram).or_insert(0);
        *count = n.max(*count);
    }
    a
}
