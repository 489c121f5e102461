//! Error rates by edit distance: the minimum number of insertions, deletions and replacements that
//! turn the hypothesis into the reference (Levenshtein 1966), over the length of the references.

use super::text::words;

/// Counts over the segments of a corpus, from which an error rate is computed.
#[derive(Clone, Debug, Default)]
pub struct EditCounts {
    edits: u64,
    length: u64,
}

impl EditCounts {
    /// Counts the words of one segment.
    pub fn add_words(&mut self, hypothesis: &str, reference: &str) {
        let [hypothesis, reference] = [hypothesis, reference].map(|text| words(text).collect());
        self.add::<&str>(hypothesis, reference);
    }

    /// Counts the characters of one segment.
    pub fn add_characters(&mut self, hypothesis: &str, reference: &str) {
        let [hypothesis, reference] = [hypothesis, reference].map(|text| text.chars().collect());
        self.add::<char>(hypothesis, reference);
    }

    fn add<T: PartialEq>(&mut self, hypothesis: Vec<T>, reference: Vec<T>) {
        self.edits += distance(&hypothesis, &reference);
        self.length += reference.len() as u64;
    }

    /// Returns the number of edits per word or character of the references. It is above 1 where
    /// hypotheses are much longer; `None` if the references are empty.
    pub fn rate(&self) -> Option<f64> {
        (self.length > 0).then(|| self.edits as f64 / self.length as f64)
    }
}

fn distance<T: PartialEq>(a: &[T], b: &[T]) -> u64 {
    // `row[j]` is the distance from the items of `a` so far to the first `j` items of `b`.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(a: &str, b: &str) -> u64 {
        let [a, b]: [Vec<char>; 2] = [a, b].map(|text| text.chars().collect());
        distance(&a, &b)
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
            assert_eq!(of(a, b), expected, "{a} {b}");
            assert_eq!(of(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_error_rate_is_over_the_whole_corpus() {
        let mut counts = EditCounts::default();
        assert_eq!(counts.rate(), None);
        counts.add_words("a b c", "a x c");
        counts.add_words("", "d");
        assert_eq!(counts.rate(), Some(2.0 / 4.0));
    }
}
