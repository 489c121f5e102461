//! Marks the errors of an output, word by word.

use serde::Serialize;

/// A word, and whether it is marked as a difference between output and reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Marked(String, bool);

/// Maximum number of words of a text that is compared.
///
/// The time of a comparison grows with the square of this number. If reference or output is longer,
/// and the output is not correct, all words of both are marked.
const WORDS: usize = 1000;

/// Returns the words of the reference and the words of the output, with their differences marked.
///
/// Words outside a longest common subsequence are marked: marked words of the reference are missing
/// in the output, and marked words of the output are wrong. A correct output has no marks, even
/// where it differs from the reference. Texts with more than [`WORDS`] words are not compared.
pub fn marked(reference: &str, output: &str, is_correct: bool) -> [Vec<Marked>; 2] {
    let [a, b] = [reference, output].map(|text| text.split_whitespace().collect::<Vec<_>>());
    let (mut in_a, mut in_b) = (vec![is_correct; a.len()], vec![is_correct; b.len()]);
    if !is_correct && a.len().max(b.len()) <= WORDS {
        let lengths = common_lengths(&a, &b);
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            if a[i] == b[j] {
                (in_a[i], in_b[j]) = (true, true);
                (i, j) = (i + 1, j + 1);
            } else if lengths[i + 1][j] >= lengths[i][j + 1] {
                i += 1;
            } else {
                j += 1;
            }
        }
    }
    [(a, in_a), (b, in_b)].map(|(words, common)| {
        let pairs = words.into_iter().zip(common);
        let marked = pairs.map(|(word, is_common)| Marked(word.into(), !is_common));
        marked.collect()
    })
}

/// Returns the lengths of longest common subsequences. Element `[i][j]` is the length for the
/// suffixes `a[i..]` and `b[j..]`.
fn common_lengths(a: &[&str], b: &[&str]) -> Vec<Vec<u16>> {
    let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i][j] = if a[i] == b[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns reference and output, with marked words in brackets.
    fn show(reference: &str, output: &str, is_correct: bool) -> [String; 2] {
        marked(reference, output, is_correct).map(|words| {
            let words = words.iter().map(|Marked(word, is_marked)| {
                if *is_marked {
                    format!("[{word}]")
                } else {
                    word.clone()
                }
            });
            words.collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn words_outside_of_the_common_ones_are_marked() {
        assert_eq!(show("3 1 4", "3 1 4", true), ["3 1 4", "3 1 4"]);
        assert_eq!(
            show("3 1 4 1", "3 4 4 1", false),
            ["3 [1] 4 1", "3 4 [4] 1"]
        );
        assert_eq!(show("a b c", "b c d", false), ["[a] b c", "b c [d]"]);
        assert_eq!(show("a b", "", false), ["[a] [b]", ""]);
        assert_eq!(show("", "x", false), ["", "[x]"]);
        // A correct output has no marks, even if it differs from the reference.
        assert_eq!(show("a b", "c", true), ["a b", "c"]);
        let json = serde_json::to_string(&marked("a", "b", false)).unwrap();
        assert_eq!(json, r#"[[["a",true]],[["b",true]]]"#);
    }

    #[test]
    fn very_long_texts_are_not_compared() {
        let long = "w ".repeat(WORDS + 1);
        let [reference, output] = marked(&long, &format!("{long} x"), false);
        assert!(reference.iter().chain(&output).all(|word| word.1));
    }
}
