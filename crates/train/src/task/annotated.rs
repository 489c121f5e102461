//! The copy task of the Annotated Transformer (its section "A First Example").

use std::ops::RangeInclusive;

use rand::RngExt;

use super::{Alphabet, Example, SyntheticTask, Task, TaskRng};

/// Ten symbols, length 10, the first one always 1, which the decoder reads as its begin symbol. No
/// end symbol.
#[derive(Clone, Debug)]
pub struct AnnotatedCopy {
    alphabet: Alphabet,
}

impl AnnotatedCopy {
    const SYMBOLS: u32 = 10;
    const LENGTH: usize = 10;

    /// `1 2 3 4 5 6 7 8 9 10`, the article's own test.
    pub fn one_to_ten() -> Example {
        let source: Vec<u32> = (1..=Self::SYMBOLS).collect();
        Example {
            target: source.clone(),
            source,
        }
    }
}

impl Default for AnnotatedCopy {
    fn default() -> Self {
        let tokens = (0..=Self::SYMBOLS).map(|id| id.to_string());
        Self {
            alphabet: Alphabet::of(tokens.collect(), 1, 0, 1, None),
        }
    }
}

impl SyntheticTask for AnnotatedCopy {
    fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    fn lengths(&self) -> RangeInclusive<usize> {
        Self::LENGTH..=Self::LENGTH
    }

    fn pair(&self, length: usize, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>) {
        let symbols = self.alphabet.symbols();
        let mut source: Vec<u32> = (0..length)
            .map(|_| rng.random_range(symbols.clone()))
            .collect();
        source[0] = self.bos_id();
        let target = source[1..].to_vec();
        (source, target)
    }

    fn max_tokens(&self, length: usize) -> usize {
        length
    }

    // No length is drawn: the published losses are of these sequences.
    fn draw(&self, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>) {
        self.pair(Self::LENGTH, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Split, expected};
    use super::*;

    #[test]
    fn it_begins_with_1() {
        let task = AnnotatedCopy::default();
        for index in 0..100 {
            let example = task.example(0, Split::Train, index);
            assert_eq!(example.source.len(), 10);
            assert_eq!(example.source[0], task.bos_id());
            assert_eq!(example.target, example.source);
            assert_eq!(expected(&task, &example), &example.source[1..]);
        }
        let one_to_ten = AnnotatedCopy::one_to_ten();
        assert_eq!(task.show(&one_to_ten.source), "1 2 3 4 5 6 7 8 9 10");
    }

    #[test]
    fn only_symbols_can_be_written() {
        let task = AnnotatedCopy::default();
        for word in ["0", "11", "01", "<pad>"] {
            let error = task.parse(word).unwrap_err().to_string();
            assert!(error.ends_with("which are 1 to 10 in this run"), "{error}");
        }
        assert_eq!(task.token_id("0"), Some(0));
        assert_eq!((task.source_vocab_size(), task.max_len()), (11, 10));
        assert_eq!((task.pad_id(), task.eos_id()), (0, None));
    }
}
