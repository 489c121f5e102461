//! Scores of texts against references: BLEU and chrF as sacreBLEU 2.6 computes them, and error rates
//! by edits. All of them are of a corpus: counts are summed over its segments, not scores.

mod bleu;
mod chrf;
mod edits;
mod tokenize;

pub use bleu::{Bleu, BleuCounts};
pub use chrf::ChrfCounts;
pub use edits::EditCounts;
pub use tokenize::Tokenizer;

/// Whitespace as Python has it, whose `split` the scores are defined by.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The words of a text, between whitespace.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// How often each run of `n` items stands there.
fn n_grams<T: std::hash::Hash + Eq>(items: &[T], n: usize) -> std::collections::HashMap<&[T], u64> {
    let mut counts = std::collections::HashMap::new();
    for n_gram in items.windows(n) {
        *counts.entry(n_gram).or_insert(0) += 1;
    }
    counts
}

/// How many n-grams of one are in the other, too, each as often as it is in both.
fn matches<K: std::hash::Hash + Eq>(
    a: &std::collections::HashMap<K, u64>,
    b: &std::collections::HashMap<K, u64>,
) -> u64 {
    let in_both = a
        .iter()
        .map(|(n_gram, &n)| n.min(*b.get(n_gram).unwrap_or(&0)));
    in_both.sum()
}
