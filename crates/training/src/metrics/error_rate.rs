//! Error rates by edit distance (Levenshtein 1966): the minimum number of insertions, deletions and
//! replacements that turn the hypotheses into the references, divided by the references' length.

use std::collections::HashMap;

use rapidfuzz::distance::levenshtein::distance;

use super::text::words;

/// Counts over the segments of a corpus, from which an error rate is computed.
#[derive(Clone, Debug, Default)]
pub struct EditCounts {
    edits: u64,
    length: u64,
}

impl EditCounts {
    /// Adds the word edits of one segment, relative to the reference that needs the fewest edits.
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

    /// Adds the character edits of one segment, relative to the reference that needs the fewest
    /// edits.
    pub fn add_characters(&mut self, hypothesis: &str, references: &[&str]) {
        let characters = |text: &str| text.chars().map(u32::from).collect();
        let references = references.iter().map(|text| characters(text));
        let hypothesis: Vec<u32> = characters(hypothesis);
        self.add(&hypothesis, references);
    }

    fn add(&mut self, hypothesis: &[u32], references: impl Iterator<Item = Vec<u32>>) {
        let counts = references.map(|reference| {
            let length = reference.len() as u64;
            let edits = distance(hypothesis.iter().copied(), reference);
            (edits as u64, length)
        });
        if let Some((edits, length)) = counts.min_by_key(|&(edits, _)| edits) {
            self.edits += edits;
            self.length += length;
        }
    }

    /// Returns the number of edits per word or character of the references; `None` if the
    /// references are empty. The rate can exceed 1 if hypotheses are longer than references.
    pub fn rate(&self) -> Option<f64> {
        (self.length > 0).then(|| self.edits as f64 / self.length as f64)
    }
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
