//! Error rates by edit distance (Levenshtein 1966): the minimum number of insertions, deletions and
//! replacements that turn the hypotheses into the references, divided by the references' length.

use std::collections::HashMap;

use rapidfuzz::distance::levenshtein::{Args, distance_with_args};

use super::text::words;

/// Maximum product of a segment's length and its number of edits. The time to count the edits is
/// proportional to this product. For the maximum, it is a minute or two.
const MAX_WORK: u64 = 1 << 38;

/// Maximum sum of these products over all segments and references of a corpus.
const MAX_TOTAL: u64 = 1 << 42;

/// Counts over the segments of a corpus, from which an error rate is computed.
#[derive(Clone, Debug)]
pub struct EditCounts {
    edits: u64,
    length: u64,
    /// Remaining part of [`MAX_TOTAL`]; `None` if a segment was skipped because counting its edits
    /// would exceed a maximum.
    left: Option<u64>,
}

impl Default for EditCounts {
    /// Returns the counts of no segments.
    fn default() -> Self {
        Self {
            edits: 0,
            length: 0,
            left: Some(MAX_TOTAL),
        }
    }
}

impl EditCounts {
    /// Adds the word edits of one segment, relative to the reference that needs the fewest edits.
    /// Skips a long segment with many edits if counting them would take minutes. The
    /// [`rate`](Self::rate) is then `None`.
    pub fn add_words(&mut self, hypothesis: &str, references: &[&str]) {
        let mut ids = HashMap::new();
        let mut id_of = |word| {
            let next = ids.len() as u32;
            *ids.entry(word).or_insert(next)
        };
        let hypothesis: Vec<u32> = words(hypothesis).map(&mut id_of).collect();
        let references = references
            .iter()
            .map(|text| words(text).map(&mut id_of).collect());
        self.add(&hypothesis, references);
    }

    /// Adds the character edits of one segment, as [`add_words`](Self::add_words) adds word edits.
    pub fn add_characters(&mut self, hypothesis: &str, references: &[&str]) {
        let characters = |text: &str| text.chars().map(u32::from).collect();
        let references = references.iter().map(|text| characters(text));
        let hypothesis: Vec<u32> = characters(hypothesis);
        self.add(&hypothesis, references);
    }

    fn add(&mut self, hypothesis: &[u32], references: impl Iterator<Item = Vec<u32>>) {
        let mut best: Option<(usize, usize)> = None;
        for reference in references {
            let length = reference.len();
            let longer = length.max(hypothesis.len()).max(1) as u64;
            let most = self.left.map_or(0, |left| left.min(MAX_WORK) / longer);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let found = distance(hypothesis, reference, most);
            let left = self.left.zip(found);
            self.left = left.map(|(left, edits)| left - edits as u64 * longer);
            let Some(edits) = found else { return };
            if best.is_none_or(|(fewest, _)| edits < fewest) {
                best = Some((edits, length));
            }
        }
        let (edits, length) = best.unwrap_or_default();
        self.edits += edits as u64;
        self.length += length as u64;
    }

    /// Returns whether no segment was skipped so far.
    pub fn is_complete(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the number of edits per word or character of the references; `None` if the
    /// references are empty, or if a segment was skipped. The rate can exceed 1 if hypotheses are
    /// longer than references.
    pub fn rate(&self) -> Option<f64> {
        let is_known = self.length > 0 && self.is_complete();
        is_known.then(|| self.edits as f64 / self.length as f64)
    }
}

/// Returns the number of edits between two sequences; `None` if there are more than `most`.
fn distance(a: &[u32], b: Vec<u32>, most: usize) -> Option<usize> {
    // The library looks for at most this number of edits first, and then doubles it until it is
    // enough, so that few edits are counted quickly.
    const FIRST: usize = 31;
    let args = Args::default().score_hint(FIRST).score_cutoff(most);
    distance_with_args(a.iter().copied(), b, &args)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::data::{DataRng, Split, generator};

    /// Returns the character edits between two texts, and the word edits if each character is a
    /// word.
    fn of(a: &str, b: &str) -> [u64; 2] {
        let spaced = |text: &str| text.chars().flat_map(|c| [c, ' ']).collect::<String>();
        let (mut characters, mut words) = (EditCounts::default(), EditCounts::default());
        characters.add_characters(a, &[b]);
        words.add_words(&spaced(a), &[&spaced(b)]);
        [characters.edits, words.edits]
    }

    #[test]
    fn distances_by_hand() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("abc", "abc", 0),
        ] {
            assert_eq!(of(a, b), [expected; 2], "{a} {b}");
            assert_eq!(of(b, a), [expected; 2], "{b} {a}");
        }
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        /// Computes the distance by the recurrence of Levenshtein, one cell at a time.
        fn by_definition(a: &[char], b: &[char]) -> u64 {
            let mut row: Vec<u64> = (0..=b.len() as u64).collect();
            for (i, x) in a.iter().enumerate() {
                let mut diagonal = row[0];
                row[0] = i as u64 + 1;
                for (j, y) in b.iter().enumerate() {
                    let replaced = diagonal + u64::from(x != y);
                    diagonal = row[j + 1];
                    row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
                }
            }
            row[b.len()]
        }
        let mut rng = generator(3, Split::Test, 0);
        for _ in 0..300 {
            let text = |rng: &mut DataRng| -> Vec<char> {
                let length = rng.random_range(0..200);
                let letters = rng.random_range(1..=26);
                (0..length)
                    .map(|_| char::from(b'a' + rng.random_range(0..letters)))
                    .collect()
            };
            let (a, b) = (text(&mut rng), text(&mut rng));
            let [x, y] = [&a, &b].map(|text| text.iter().collect::<String>());
            assert_eq!(of(&x, &y), [by_definition(&a, &b); 2], "{x} {y}");
        }
    }

    #[test]
    fn long_segments_are_counted_if_they_have_few_edits() {
        let mut rng = generator(5, Split::Test, 0);
        let n = 1_000_000;
        let words: Vec<u32> = (0..n).map(|_| rng.random_range(0..1000)).collect();
        let mut similar = words.clone();
        for index in (0..n).step_by(10_000) {
            similar[index] = 1000;
        }
        let mut counts = EditCounts::default();
        counts.add(&words, [similar.clone()].into_iter());
        assert_eq!(counts.rate(), Some(1e-4));
        // The second reference lacks half of the words, so it needs at least 500,000 edits. That is
        // more than the maximum for this length, so the edits are not counted.
        counts.add(&words, [similar, words[..n / 2].to_vec()].into_iter());
        assert_eq!((counts.is_complete(), counts.rate()), (false, None));
    }

    #[test]
    fn the_error_rate_is_over_the_whole_corpus() {
        let mut counts = EditCounts::default();
        assert_eq!(counts.rate(), None);
        counts.add_words("a b c", &["a x c"]);
        counts.add_words("", &["d"]);
        assert_eq!(counts.rate(), Some(2.0 / 4.0));
        // The first reference needs two edits, and the second needs only one.
        counts.add_words("a b", &["c d", "a b c"]);
        assert_eq!(counts.rate(), Some(3.0 / 7.0));
    }
}
