//! Tasks on sequences of random symbols: copy, reverse and sort.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::task::has_all_splits;
use super::{Alphabet, SyntheticTask};
use crate::data::DataRng;
use crate::error::{UsageError, check_bounds};
use crate::setting::{settings, whole};

/// Rule that computes a target from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The target is the source.
    Copy,
    /// The target is the reversed source.
    Reverse,
    /// The target has the symbols of the source in increasing order, repeated symbols included.
    Sort,
}

impl Rule {
    /// Returns the target of a source, without begin and end symbol.
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

settings! {
    /// Settings of a [`SequenceTask`].
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct SequenceConfig in "data." {
        /// Number of different symbols.
        symbols: usize = 32, whole(1, 100_000).flag("--symbols", "N");
        /// Length of the shortest sequence.
        min_length: usize = 1, whole(1, 10_000).rare_flag("--min-length", "N");
        /// Length of the longest sequence; for text, in tokens.
        max_length: usize = 16, whole(1, 10_000).flag("--max-length", "N");
    }
}

/// Task on sequences of random symbols and lengths. A [`Rule`] computes the targets.
#[derive(Clone, Debug)]
pub struct SequenceTask {
    rule: Rule,
    alphabet: Alphabet,
    lengths: RangeInclusive<usize>,
}

impl SequenceTask {
    /// Creates the task.
    ///
    /// # Errors
    ///
    /// If a setting is out of its bounds, or there are too few different sequences to hold some
    /// out.
    pub fn new(rule: Rule, config: &SequenceConfig) -> Result<Self, UsageError> {
        check_bounds(config)?;
        let (shortest, longest) = (config.min_length, config.max_length);
        let (least, most) = (SequenceConfig::min_length, SequenceConfig::max_length);
        let expected = format!("must be at most {} ({longest})", most.name());
        UsageError::check(shortest <= longest, least, shortest, expected)?;
        let names = (1..=config.symbols).map(|n| n.to_string());
        let task = Self {
            rule,
            alphabet: Alphabet::new(names).expect("numbers are different words"),
            lengths: shortest..=longest,
        };
        let expected = format!(
            "with lengths {shortest} to {longest} there are too few different sequences to hold some out: raise it or {}",
            most.name()
        );
        let (is_valid, setting) = (has_all_splits(&task), SequenceConfig::symbols);
        UsageError::check(is_valid, setting, config.symbols, expected)?;
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

    fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        let source = self.alphabet.draw(length, rng);
        let target = self.rule.apply(&source);
        (source, target)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use transformer::Vocabulary;

    use super::super::task::example;
    use super::*;
    use crate::data::codec::Codec;
    use crate::data::split::Split;

    fn task(rule: Rule) -> SequenceTask {
        SequenceTask::new(rule, &SequenceConfig::default()).unwrap()
    }

    fn config(symbols: usize, min_length: usize, max_length: usize) -> SequenceConfig {
        SequenceConfig {
            symbols,
            min_length,
            max_length,
        }
    }

    #[test]
    fn sources_have_all_lengths_and_symbols() {
        let task = task(Rule::Copy);
        let mut lengths = HashMap::new();
        for index in 0..2000 {
            let example = example(&task, 7, Split::Train, index);
            assert_eq!(example.output(true), example.source);
            assert!(example.source.iter().all(|&id| (4..36).contains(&id)));
            *lengths.entry(example.source.len()).or_insert(0) += 1;
        }
        assert_eq!(lengths.len(), 16);
        assert!(lengths.values().all(|&n| n > 80), "{lengths:?}");
    }

    #[test]
    fn the_rules_share_their_sources() {
        let tasks = [Rule::Copy, Rule::Reverse, Rule::Sort].map(task);
        let mut repeated = 0;
        for index in 0..200 {
            let [copied, reversed, sorted] = tasks
                .each_ref()
                .map(|task| example(task, 0, Split::Train, index));
            let source = &copied.source;
            assert_eq!((&reversed.source, &sorted.source), (source, source));
            let output = reversed.output(true);
            assert_eq!(output.len(), source.len());
            for (position, id) in output.iter().enumerate() {
                assert_eq!(*id, source[source.len() - 1 - position]);
            }
            let output = sorted.output(true);
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
        let codec = sort.alphabet();
        let source = codec.encode_source("10 9 2 10 32 1").unwrap();
        let target = codec.decode_target(&Rule::Sort.apply(&source));
        assert_eq!(target, "1 2 9 10 10 32");
    }

    #[test]
    fn impossible_tasks_are_rejected() {
        let error = |symbols, min, max| {
            let task = SequenceTask::new(Rule::Sort, &config(symbols, min, max));
            task.unwrap_err().to_string()
        };
        assert_eq!(
            error(9, 9, 4),
            "data.min_length 9: must be at most --max-length (4)"
        );
        let expected =
            "data.max_length 10001: must be a whole number of at least 1 and at most 10000";
        assert_eq!(error(9, 1, 10_001), expected);
        let few = error(1, 1, 1);
        assert!(few.ends_with("raise it or --max-length"));
    }

    #[test]
    fn only_symbols_are_encoded() {
        let copy = SequenceTask::new(Rule::Copy, &config(9, 1, 4)).unwrap();
        let codec = copy.alphabet();
        for word in [
            "0", "10", "01", "+1", "x", "<pad>", "<bos>", "<eos>", "<unk>",
        ] {
            let error = codec.encode_source(&format!("1 {word}")).unwrap_err();
            let expected = format!("{word:?} is not a symbol, which are 1 to 9 in this run");
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(codec.target_id("<pad>"), Ok(Vocabulary::PAD_ID));
    }
}
