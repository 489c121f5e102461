//! Error rates by edit distance (Levenshtein 1966): the minimum number of insertions, deletions and
//! replacements that turn the hypotheses into the references, divided by the references' length.

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
        self.add(hypothesis, references, |text| words(text).collect());
    }

    /// Adds the character edits of one segment, relative to the reference that needs the fewest
    /// edits.
    pub fn add_characters(&mut self, hypothesis: &str, references: &[&str]) {
        self.add(hypothesis, references, |text| text.chars().collect());
    }

    fn add<'a, T: PartialEq>(
        &mut self,
        hypothesis: &'a str,
        references: &[&'a str],
        parts: impl Fn(&'a str) -> Vec<T>,
    ) {
        let hypothesis = parts(hypothesis);
        let counts = references.iter().map(|reference| {
            let reference = parts(reference);
            (distance(&hypothesis, &reference), reference.len() as u64)
        });
        if let Some((edits, length)) = counts.min_by_key(|&(edits, _)| edits) {
            self.edits += edits;
            self.length += length;
        }
    }

    /// Returns the number of edits per word or character of the references; `None` if the
    /// references are empty. The rate is above 1 if hypotheses are much longer than references.
    pub fn rate(&self) -> Option<f64> {
        (self.length > 0).then(|| self.edits as f64 / self.length as f64)
    }
}

fn distance<T: PartialEq>(a: &[T], b: &[T]) -> u64 {
    // `row[j]` is the distance from the items of `a` read so far to the first `j` items of `b`.
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
        counts.add_words("a b c", &["a x c"]);
        counts.add_words("", &["d"]);
        assert_eq!(counts.rate(), Some(2.0 / 4.0));
        // The first reference needs two edits, and the second needs only one.
        counts.add_words("a b", &["c d", "a b c"]);
        assert_eq!(counts.rate(), Some(3.0 / 7.0));
    }
}
