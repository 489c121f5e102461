//! Decimal addition, digit by digit: the target of `1 2 3 4 + 5 6 7` is `1 8 0 1`.

use std::ops::RangeInclusive;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::{Alphabet, SyntheticTask};
use crate::data::DataRng;
use crate::error::{UsageError, check_bounds};
use crate::setting::{settings, whole};

settings! {
    /// Settings of an [`AddTask`].
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct AddConfig in "data." {
        /// Maximum digits of a number (add only).
        max_digits: usize = 4, whole(1, 1000).rare_flag("--max-digits", "N");
    }
}

/// Task of adding two numbers. Numbers have no leading zeros, and their most significant digit
/// comes first, in sources and targets.
///
/// The length of a pair is the number of digits of its longer number. The other number has at most
/// as many digits, and either number may come first. A sum that is held out for validation or test
/// may be in the training split with its numbers swapped.
#[derive(Clone, Debug)]
pub struct AddTask {
    alphabet: Alphabet,
    max_digits: usize,
}

impl AddTask {
    /// Creates the task.
    ///
    /// # Errors
    ///
    /// If `max_digits` is out of its bounds.
    pub fn new(config: &AddConfig) -> Result<Self, UsageError> {
        let max_digits = config.max_digits;
        check_bounds(config)?;
        let digits = (0..10).map(|digit| digit.to_string());
        Ok(Self {
            alphabet: Alphabet::new(digits.chain(["+".into()])).expect("they are different words"),
            max_digits,
        })
    }

    fn number(digits: usize, rng: &mut DataRng) -> Vec<u32> {
        let digit = |position| rng.random_range(u32::from(position == 0 && digits > 1)..10);
        (0..digits).map(digit).collect()
    }
}

/// Returns the digits of the sum of two numbers, which are given by their digits.
fn sum(a: &[u32], b: &[u32]) -> Vec<u32> {
    let digit = |number: &[u32], column| number.iter().rev().nth(column).copied().unwrap_or(0);
    let mut carry = 0;
    let mut sum: Vec<u32> = (0..a.len().max(b.len()))
        .map(|column| {
            let column_sum = digit(a, column) + digit(b, column) + carry;
            carry = column_sum / 10;
            column_sum % 10
        })
        .collect();
    if carry > 0 {
        sum.push(carry);
    }
    sum.reverse();
    sum
}

impl SyntheticTask for AddTask {
    fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    fn lengths(&self) -> RangeInclusive<usize> {
        1..=self.max_digits
    }

    fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        let mut a = Self::number(length, rng);
        let digits = rng.random_range(1..=length);
        let mut b = Self::number(digits, rng);
        if rng.random() {
            std::mem::swap(&mut a, &mut b);
        }
        // The first ten symbols are the digits, and the next symbol is `+`.
        let zero = self.alphabet.symbols().start;
        let ids = |digits: &[u32]| -> Vec<u32> { digits.iter().map(|d| zero + d).collect() };
        let source = [ids(&a), vec![zero + 10], ids(&b)].concat();
        (source, ids(&sum(&a, &b)))
    }

    fn max_tokens(&self, length: usize) -> usize {
        // A source has two numbers and a plus sign. A target has at most `length + 1` digits, and
        // begin and end symbol.
        (2 * length + 1).max(length + 3)
    }

    fn check_source(&self, source: &[u32]) -> Result<(), &'static str> {
        let zero = self.alphabet.symbols().start;
        let numbers: Vec<&[u32]> = source.split(|&id| id == zero + 10).collect();
        let is_number = |digits: &&[u32]| digits.len() == 1 || digits.first() > Some(&zero);
        let is_sum = numbers.len() == 2 && numbers.iter().all(is_number);
        let expected = "must be two numbers without leading zeros and + between them, as 1 2 + 3";
        is_sum.then_some(()).ok_or(expected)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::task::{example, examples_of_length};
    use super::*;
    use crate::data::codec::Codec;
    use crate::data::dataset::Dataset;
    use crate::data::example::Example;
    use crate::data::split::Split;

    fn task(max_digits: usize) -> AddTask {
        AddTask::new(&AddConfig { max_digits }).unwrap()
    }

    /// Returns the two numbers of an example and its output, as texts.
    fn parts(task: &AddTask, example: &Example) -> [String; 3] {
        let text = |ids| task.alphabet().decode_target(ids).replace(' ', "");
        let source = text(&example.source);
        let (a, b) = source.split_once('+').unwrap();
        [a.into(), b.into(), text(example.output(true))]
    }

    #[test]
    fn targets_are_the_sums() {
        let task = task(4);
        let mut seen = HashSet::new();
        for index in 0..2000 {
            let [a, b, target] = parts(&task, &example(&task, 0, Split::Train, index));
            let sum = a.parse::<u64>().unwrap() + b.parse::<u64>().unwrap();
            assert_eq!(target, sum.to_string(), "{a} + {b}");
            for number in [&a, &b] {
                assert!(number == "0" || !number.starts_with('0'), "{a} + {b}");
            }
            seen.insert((a.len(), b.len()));
        }
        assert_eq!(seen.len(), 16, "{seen:?}");
    }

    #[test]
    fn the_length_of_a_sum_is_that_of_its_longer_number() {
        let task = task(2);
        for example in examples_of_length(&task, 0, Split::Test, 30, 100) {
            let [a, b, target] = parts(&task, &example);
            assert_eq!(a.len().max(b.len()), 30);
            let sum = a.parse::<u128>().unwrap() + b.parse::<u128>().unwrap();
            assert_eq!(target, sum.to_string());
        }
    }

    #[test]
    fn carries_go_through_all_digits() {
        assert_eq!(sum(&[9, 9, 9], &[1]), [1, 0, 0, 0]);
        assert_eq!(sum(&[0], &[0]), [0]);
        assert_eq!(sum(&[1, 2, 3, 4], &[5, 6, 7]), [1, 8, 0, 1]);
    }

    #[test]
    fn digits_and_plus_are_encoded() {
        let task = task(4);
        let codec = task.alphabet();
        assert_eq!(codec.encode_source("0 9 + 1").unwrap(), [4, 13, 14, 5]);
        let error = codec.encode_source("1 - 2").unwrap_err().to_string();
        let expected = "\"-\" is not a symbol, which are 0 to 9, + in this run";
        assert_eq!(error, expected);
        let is_sum = |text| task.source(text).is_ok();
        assert!(["0 + 0", "1 0 + 9", ""].into_iter().all(is_sum));
        let others = "+|1|1 +|+ 1|1 + + 2|1 + 2 + 3|0 1 + 2";
        assert!(!others.split('|').any(is_sum));
        assert_eq!(codec.vocabularies().source_size, 15);
        assert_eq!(task.limits().sequence(), 9);
        assert_eq!(task.max_tokens(1), 4);
    }
}
