//! Tasks on sequences of random symbols: copy, reverse, sort.

use std::ops::RangeInclusive;

use rand::RngExt;

use super::{Alphabet, SyntheticTask, TaskRng, has_all_splits};
use crate::error::UsageError;

/// What the target is, as a function of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The source.
    Copy,
    /// The source, from its end to its begin.
    Reverse,
    /// The symbols of the source in increasing order, each as often as it is there.
    Sort,
}

impl Rule {
    /// The target, without begin and end symbol.
    pub fn apply(self, source: &[u32]) -> Vec<u32> {
        let mut target = source.to_vec();
        match self {
            Self::Copy => {}
            Self::Reverse => target.reverse(),
            Self::Sort => target.sort_unstable(),
        }
        target
    }
}

/// Sequences of random symbols and random length, and what a [`Rule`] makes of them.
#[derive(Clone, Debug)]
pub struct SequenceTask {
    rule: Rule,
    alphabet: Alphabet,
    lengths: RangeInclusive<usize>,
}

impl SequenceTask {
    /// `symbols` different ones, lengths `min_length..=max_length`.
    ///
    /// # Errors
    ///
    /// No symbols, no lengths, or so few different sequences that none can be held out.
    pub fn new(
        rule: Rule,
        symbols: usize,
        min_length: usize,
        max_length: usize,
    ) -> Result<Self, UsageError> {
        let wrong = |flag, value, expected: &str| Err(UsageError::new(flag, value, expected));
        if symbols == 0 {
            return wrong("--symbols", symbols, "must be at least 1");
        }
        if symbols > 100_000 {
            return wrong("--symbols", symbols, "must be at most 100000");
        }
        if max_length == 0 || max_length > 10_000 {
            let expected = "must be at least 1 and at most 10000";
            return wrong("--max-length", max_length, expected);
        }
        if min_length == 0 {
            return wrong("--min-length", min_length, "must be at least 1");
        }
        if min_length > max_length {
            let expected = format!("must be at most --max-length ({max_length})");
            return wrong("--min-length", min_length, &expected);
        }
        let names = (1..=symbols).map(|n| n.to_string());
        let task = Self {
            rule,
            alphabet: Alphabet::new(names).expect("numbers are different words"),
            lengths: min_length..=max_length,
        };
        if !has_all_splits(&task) {
            let expected = format!(
                "with lengths {min_length} to {max_length} there are too few different sequences to hold some out: raise --symbols or --max-length"
            );
            return wrong("--symbols", symbols, &expected);
        }
        Ok(task)
    }
}

impl SyntheticTask for SequenceTask {
    fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    fn lengths(&self) -> RangeInclusive<usize> {
        self.lengths.clone()
    }

    fn pair(&self, length: usize, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>) {
        let symbols = self.alphabet.symbols();
        let source: Vec<u32> = (0..length)
            .map(|_| rng.random_range(symbols.clone()))
            .collect();
        let target = self.rule.apply(&source);
        (source, target)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use transformer::Vocabulary;

    use super::super::{Split, Task, expected};
    use super::*;

    fn task(rule: Rule) -> SequenceTask {
        SequenceTask::new(rule, 32, 1, 16).unwrap()
    }

    #[test]
    fn sources_are_of_all_lengths_and_symbols() {
        let task = task(Rule::Copy);
        let mut lengths = HashMap::new();
        for index in 0..2000 {
            let example = task.example(7, Split::Train, index);
            assert_eq!(expected(&task, &example), example.source);
            assert!(example.source.iter().all(|&id| (4..36).contains(&id)));
            *lengths.entry(example.source.len()).or_insert(0) += 1;
        }
        assert_eq!(lengths.len(), 16);
        assert!(lengths.values().all(|&n| n > 80), "{lengths:?}");
    }

    #[test]
    fn the_rules_share_their_sources() {
        let [copy, reverse, sort] = [Rule::Copy, Rule::Reverse, Rule::Sort].map(task);
        let mut repeated = 0;
        for index in 0..200 {
            let [copied, reversed, sorted] =
                [&copy, &reverse, &sort].map(|task| task.example(0, Split::Train, index));
            let source = &copied.source;
            assert_eq!((&reversed.source, &sorted.source), (source, source));
            let output = expected(&reverse, &reversed);
            assert_eq!(output.len(), source.len());
            for (place, id) in output.iter().enumerate() {
                assert_eq!(*id, source[source.len() - 1 - place]);
            }
            let output = expected(&sort, &sorted);
            let count = |ids: &[u32], id| ids.iter().filter(|&&other| other == id).count();
            assert!(output.is_sorted());
            assert!((4..36).all(|id| count(output, id) == count(source, id)));
            repeated += usize::from(output.windows(2).any(|pair| pair[0] == pair[1]));
        }
        assert!(repeated > 50, "{repeated}");
    }

    #[test]
    fn symbols_are_sorted_as_numbers() {
        let sort = task(Rule::Sort);
        let target = |text| sort.show(&Rule::Sort.apply(&sort.parse(text).unwrap()));
        assert_eq!(target("10 9 2 10 32 1"), "1 2 9 10 10 32");
    }

    #[test]
    fn impossible_tasks_are_refused() {
        let error = |symbols, min, max| {
            let task = SequenceTask::new(Rule::Sort, symbols, min, max);
            task.unwrap_err().to_string()
        };
        assert_eq!(error(0, 1, 4), "--symbols 0: must be at least 1");
        assert_eq!(error(9, 0, 4), "--min-length 0: must be at least 1");
        assert_eq!(
            error(9, 9, 4),
            "--min-length 9: must be at most --max-length (4)"
        );
        assert!(error(1, 1, 1).contains("raise --symbols or --max-length"));
    }

    #[test]
    fn only_symbols_can_be_written() {
        let copy = SequenceTask::new(Rule::Copy, 9, 1, 4).unwrap();
        for word in [
            "0", "10", "01", "+1", "x", "<pad>", "<bos>", "<eos>", "<unk>",
        ] {
            let error = copy.parse(&format!("1 {word}")).unwrap_err().to_string();
            let expected = format!("{word:?} is not a symbol, which are 1 to 9 in this run");
            assert_eq!(error, expected);
        }
        assert_eq!(copy.token_id("<pad>"), Some(Vocabulary::PAD_ID));
    }
}
