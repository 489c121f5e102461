//! The copy task: the target is the source.

use rand::RngExt;
use transformer::Vocabulary;

use super::{Example, Split, Task, generator};
use crate::error::UsageError;

/// Copy sequences of random symbols and random length, between begin and end symbol.
#[derive(Clone, Debug)]
pub struct CopyTask {
    vocabulary: Vocabulary,
    min_length: usize,
    max_length: usize,
}

/// Ids of the symbols begin after the special tokens.
const FIRST_SYMBOL: u32 = Vocabulary::UNK_ID + 1;

impl CopyTask {
    /// `symbols` different ones, lengths `min_length..=max_length`.
    ///
    /// # Errors
    ///
    /// No symbols, no lengths, or so few different sequences that none can be held out.
    pub fn new(symbols: usize, min_length: usize, max_length: usize) -> Result<Self, UsageError> {
        if symbols == 0 {
            return Err(UsageError::new("--symbols", symbols, "must be at least 1"));
        }
        if symbols > 100_000 {
            return Err(UsageError::new(
                "--symbols",
                symbols,
                "must be at most 100000",
            ));
        }
        if max_length == 0 || max_length > 10_000 {
            return Err(UsageError::new(
                "--max-length",
                max_length,
                "must be at least 1 and at most 10000",
            ));
        }
        if min_length == 0 {
            return Err(UsageError::new(
                "--min-length",
                min_length,
                "must be at least 1",
            ));
        }
        if min_length > max_length {
            return Err(UsageError::new(
                "--min-length",
                min_length,
                format!("must be at most --max-length ({max_length})"),
            ));
        }
        let task = Self {
            vocabulary: Vocabulary::new((1..=symbols).map(|n| n.to_string()))
                .expect("numbers are different words"),
            min_length,
            max_length,
        };
        for split in [Split::Train, Split::Validation, Split::Test] {
            let mut rng = generator(0, split, 0);
            if !(0..10_000).any(|_| Split::of(&task.draw(&mut rng)) == split) {
                return Err(UsageError::new(
                    "--symbols",
                    symbols,
                    format!(
                        "with lengths {min_length} to {max_length} there are too few different sequences to hold some out: raise --symbols or --max-length"
                    ),
                ));
            }
        }
        Ok(task)
    }

    fn draw(&self, rng: &mut impl rand::Rng) -> Vec<u32> {
        let length = rng.random_range(self.min_length..=self.max_length);
        (0..length)
            .map(|_| rng.random_range(FIRST_SYMBOL..self.vocabulary.len() as u32))
            .collect()
    }
}

impl Task for CopyTask {
    fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    fn pad_id(&self) -> u32 {
        Vocabulary::PAD_ID
    }

    fn bos_id(&self) -> u32 {
        Vocabulary::BOS_ID
    }

    fn eos_id(&self) -> Option<u32> {
        Some(Vocabulary::EOS_ID)
    }

    fn max_len(&self) -> usize {
        self.max_length + 2
    }

    fn example(&self, seed: u64, split: Split, index: u64) -> Example {
        let mut rng = generator(seed, split, index);
        loop {
            let source = self.draw(&mut rng);
            if Split::of(&source) == split {
                let mut target = vec![Vocabulary::BOS_ID];
                target.extend(&source);
                target.push(Vocabulary::EOS_ID);
                return Example { source, target };
            }
        }
    }

    fn show(&self, ids: &[u32]) -> String {
        let words = ids
            .iter()
            .map(|&id| self.vocabulary.token(id).unwrap_or("?"));
        words.collect::<Vec<_>>().join(" ")
    }

    fn token_id(&self, name: &str) -> Option<u32> {
        // A name that is not there has the id of `<unk>`.
        let id = self.vocabulary.id(name);
        (self.vocabulary.token(id) == Some(name)).then_some(id)
    }

    fn is_symbol(&self, id: u32) -> bool {
        id >= FIRST_SYMBOL && (id as usize) < self.vocabulary.len()
    }

    fn symbols(&self) -> String {
        format!("1 to {}", self.vocabulary.len() as u32 - FIRST_SYMBOL)
    }
}

/// The Annotated Transformer's copy task (its section "A First Example"): ten symbols, length 10,
/// the first one always 1, which the decoder reads as its begin symbol. No end symbol.
#[derive(Clone, Copy, Debug)]
pub struct AnnotatedCopy;

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

impl Task for AnnotatedCopy {
    fn vocab_size(&self) -> usize {
        Self::SYMBOLS as usize + 1
    }

    fn pad_id(&self) -> u32 {
        0
    }

    fn bos_id(&self) -> u32 {
        1
    }

    fn eos_id(&self) -> Option<u32> {
        None
    }

    fn max_len(&self) -> usize {
        Self::LENGTH
    }

    fn example(&self, seed: u64, split: Split, index: u64) -> Example {
        let mut rng = generator(seed, split, index);
        loop {
            let mut source: Vec<u32> = (0..Self::LENGTH)
                .map(|_| rng.random_range(1..=Self::SYMBOLS))
                .collect();
            source[0] = 1;
            if Split::of(&source) == split {
                return Example {
                    target: source.clone(),
                    source,
                };
            }
        }
    }

    fn show(&self, ids: &[u32]) -> String {
        let words = ids.iter().map(u32::to_string);
        words.collect::<Vec<_>>().join(" ")
    }

    fn token_id(&self, name: &str) -> Option<u32> {
        (0..=Self::SYMBOLS).find(|id| id.to_string() == name)
    }

    fn is_symbol(&self, id: u32) -> bool {
        (1..=Self::SYMBOLS).contains(&id)
    }

    fn symbols(&self) -> String {
        format!("1 to {}", Self::SYMBOLS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::super::{distinct_examples, expected};
    use super::*;

    #[test]
    fn a_target_is_its_source_between_begin_and_end() {
        let task = CopyTask::new(32, 1, 16).unwrap();
        let mut lengths = HashMap::new();
        for index in 0..2000 {
            let example = task.example(7, Split::Train, index);
            assert_eq!(example.target[0], task.bos_id());
            assert_eq!(example.target.last(), task.eos_id().as_ref());
            assert_eq!(expected(&task, &example), example.source);
            assert!(example.source.iter().all(|&id| (4..36).contains(&id)));
            *lengths.entry(example.source.len()).or_insert(0) += 1;
        }
        assert_eq!(lengths.len(), 16);
        assert!(lengths.values().all(|&n| n > 80), "{lengths:?}");
    }

    #[test]
    fn examples_depend_on_seed_split_and_index_alone() {
        let task = CopyTask::new(32, 8, 16).unwrap();
        let one = task.example(3, Split::Train, 5);
        assert_eq!(one, task.example(3, Split::Train, 5));
        assert_ne!(one, task.example(4, Split::Train, 5));
        assert_ne!(one, task.example(3, Split::Train, 6));
        assert_ne!(one, task.example(3, Split::Test, 5));
    }

    #[test]
    fn splits_share_no_sequence() {
        for task in [
            &CopyTask::new(30, 1, 2).unwrap() as &dyn Task,
            &AnnotatedCopy,
        ] {
            let sources = |seed, split| -> HashSet<Vec<u32>> {
                (0..3000)
                    .map(|index| task.example(seed, split, index).source)
                    .collect()
            };
            let [train, validation, test] =
                [Split::Train, Split::Validation, Split::Test].map(|split| sources(1, split));
            assert!(train.is_disjoint(&test) && train.is_disjoint(&validation));
            assert!(test.is_disjoint(&validation));
            assert!(train.is_disjoint(&sources(2, Split::Test)));
            assert!(test.len() > 20);
        }
    }

    #[test]
    fn distinct_examples_are_distinct_and_as_many_as_there_are() {
        let task = CopyTask::new(32, 1, 16).unwrap();
        let examples = distinct_examples(&task, 0, Split::Test, 1000);
        let sources: HashSet<_> = examples.iter().map(|example| &example.source).collect();
        assert_eq!(sources.len(), 1000);

        let small = CopyTask::new(12, 1, 2).unwrap();
        let few = distinct_examples(&small, 0, Split::Test, 1000);
        assert!((1..40).contains(&few.len()), "{}", few.len());
    }

    #[test]
    fn impossible_tasks_are_refused() {
        let error = |symbols, min, max| CopyTask::new(symbols, min, max).unwrap_err().to_string();
        assert_eq!(error(0, 1, 4), "--symbols 0: must be at least 1");
        assert_eq!(error(9, 0, 4), "--min-length 0: must be at least 1");
        assert_eq!(
            error(9, 9, 4),
            "--min-length 9: must be at most --max-length (4)"
        );
        assert!(error(1, 1, 1).contains("raise --symbols or --max-length"));
    }

    #[test]
    fn what_is_shown_can_be_parsed() {
        for task in [
            &CopyTask::new(32, 1, 16).unwrap() as &dyn Task,
            &AnnotatedCopy,
        ] {
            for index in 0..50 {
                let source = task.example(0, Split::Test, index).source;
                assert_eq!(task.parse(&task.show(&source)).unwrap(), source);
            }
            assert_eq!(task.parse(" \t").unwrap(), [0; 0]);
            assert_eq!(
                task.parse(" 2\t 3\u{a0}").unwrap(),
                task.parse("2 3").unwrap()
            );
        }
    }

    #[test]
    fn only_symbols_can_be_written() {
        let copy = CopyTask::new(9, 1, 4).unwrap();
        for word in [
            "0", "10", "01", "+1", "x", "<pad>", "<bos>", "<eos>", "<unk>",
        ] {
            let error = copy.parse(&format!("1 {word}")).unwrap_err().to_string();
            let expected = format!("{word:?} is not a symbol, which are 1 to 9 in this run");
            assert_eq!(error, expected);
        }
        assert_eq!(copy.token_id("<pad>"), Some(Vocabulary::PAD_ID));
        for word in ["0", "11", "01", "<pad>"] {
            assert!(AnnotatedCopy.parse(word).is_err(), "{word}");
        }
        assert_eq!(AnnotatedCopy.token_id("0"), Some(0));
    }

    #[test]
    fn the_annotated_task_begins_with_1() {
        for index in 0..100 {
            let example = AnnotatedCopy.example(0, Split::Train, index);
            assert_eq!(example.source.len(), 10);
            assert_eq!(example.source[0], AnnotatedCopy.bos_id());
            assert_eq!(expected(&AnnotatedCopy, &example), &example.source[1..]);
        }
        assert_eq!(
            AnnotatedCopy.show(&AnnotatedCopy::one_to_ten().source),
            "1 2 3 4 5 6 7 8 9 10"
        );
    }
}
