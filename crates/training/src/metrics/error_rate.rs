//! Error rates by edit distance (Levenshtein 1966): the minimum number of insertions, deletions and
//! replacements that turn the hypotheses into the references, divided by the references' length.

use super::text::words;

/// Counts over the segments of a corpus, from which an error rate is computed.
#[derive(Clone, Debug, Default)]
pub struct EditCounts {
    edits: u64,
    length: u64,
    is_too_long: bool,
}

impl EditCounts {
    /// Maximum number of words or characters of a segment. The time to count the edits grows with
    /// its square: a segment of this length takes some tenths of a second.
    pub const MAX_LENGTH: usize = 10_000;

    /// Adds the word edits of one segment, relative to the reference that needs the fewest edits.
    pub fn add_words(&mut self, hypothesis: &str, references: &[&str]) {
        let references = references.iter().map(|text| words(text).collect());
        self.add(words(hypothesis).collect(), references);
    }

    /// Adds the character edits of one segment, as [`add_words`](Self::add_words) adds word edits.
    pub fn add_characters(&mut self, hypothesis: &str, references: &[&str]) {
        let references = references.iter().map(|text| text.chars().collect());
        self.add(hypothesis.chars().collect(), references);
    }

    fn add<T: PartialEq>(&mut self, hypothesis: Vec<T>, references: impl Iterator<Item = Vec<T>>) {
        let references: Vec<Vec<T>> = references.collect();
        let longest = references.iter().map(|it| it.len().max(hypothesis.len()));
        self.is_too_long |= longest.max() > Some(Self::MAX_LENGTH);
        if self.is_too_long {
            return;
        }
        let edits = |it: &Vec<T>| (strsim::generic_levenshtein(&hypothesis, it), it.len());
        let fewest = references.iter().map(edits).min_by_key(|(edits, _)| *edits);
        let (edits, length) = fewest.unwrap_or_default();
        self.edits += edits as u64;
        self.length += length as u64;
    }

    /// Returns whether no segment was longer than [`MAX_LENGTH`](Self::MAX_LENGTH) so far.
    pub fn is_complete(&self) -> bool {
        !self.is_too_long
    }

    /// Returns the number of edits per word or character of the references; `None` if the
    /// references are empty, or if a segment was too long. The rate can exceed 1 if hypotheses are
    /// longer than references.
    pub fn rate(&self) -> Option<f64> {
        let is_known = self.length > 0 && self.is_complete();
        is_known.then(|| self.edits as f64 / self.length as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_is_too_long_leaves_no_rate() {
        let mut counts = EditCounts::default();
        let longest = "a ".repeat(EditCounts::MAX_LENGTH);
        counts.add_words("a", &[&longest]);
        assert_eq!(counts.rate(), Some(0.9999));
        counts.add_words("a", &["a", &format!("{longest}a")]);
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
        let mut characters = EditCounts::default();
        characters.add_characters("ab c", &["ab d"]);
        assert_eq!(characters.rate(), Some(1.0 / 4.0));
    }
}
