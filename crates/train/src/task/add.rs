//! Decimal addition, digit by digit: `1 2 3 4 + 5 6 7` is `1 8 0 1`.

use std::ops::RangeInclusive;

use rand::RngExt;

use super::{Alphabet, SyntheticTask, TaskRng};
use crate::error::UsageError;

/// Sums of two numbers without leading zeros, as people write them: the most significant digit
/// first, in the target, too. A pair's length is the number of digits of its longer number; the
/// other one has any number of digits up to that, and either stands first.
///
/// A held-out sum may have been trained on with its numbers swapped.
#[derive(Clone, Debug)]
pub struct AddTask {
    alphabet: Alphabet,
    max_digits: usize,
}

impl AddTask {
    /// Numbers of `1..=max_digits` digits.
    ///
    /// # Errors
    ///
    /// No digits, or more than anybody could train on.
    pub fn new(max_digits: usize) -> Result<Self, UsageError> {
        if !(1..=1000).contains(&max_digits) {
            let expected = "must be at least 1 and at most 1000";
            return Err(UsageError::new("--max-digits", max_digits, expected));
        }
        let digits = (0..10).map(|digit| digit.to_string());
        Ok(Self {
            alphabet: Alphabet::new(digits.chain(["+".into()])).expect("they are different words"),
            max_digits,
        })
    }

    /// The id of `0`, from which the other digits go on.
    fn zero(&self) -> u32 {
        self.alphabet.symbols().start
    }

    fn number(digits: usize, rng: &mut TaskRng) -> Vec<u32> {
        let digit = |place| rng.random_range(u32::from(place == 0 && digits > 1)..10);
        (0..digits).map(digit).collect()
    }
}

/// The digits of the sum of two numbers, the most significant one first everywhere.
fn sum(a: &[u32], b: &[u32]) -> Vec<u32> {
    let digit = |number: &[u32], place| number.iter().rev().nth(place).copied().unwrap_or(0);
    let mut carry = 0;
    let mut sum: Vec<u32> = (0..a.len().max(b.len()))
        .map(|place| {
            let column = digit(a, place) + digit(b, place) + carry;
            carry = column / 10;
            column % 10
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

    fn pair(&self, length: usize, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>) {
        let mut a = Self::number(length, rng);
        let digits = rng.random_range(1..=length);
        let mut b = Self::number(digits, rng);
        if rng.random() {
            std::mem::swap(&mut a, &mut b);
        }
        let ids = |digits: &[u32]| -> Vec<u32> { digits.iter().map(|d| self.zero() + d).collect() };
        let plus = self.zero() + 10;
        ([ids(&a), vec![plus], ids(&b)].concat(), ids(&sum(&a, &b)))
    }

    fn max_tokens(&self, length: usize) -> usize {
        // Two numbers and a plus; or a digit more than the longer, and begin and end.
        (2 * length + 1).max(length + 3)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::{Split, Task, examples_of_length, expected};
    use super::*;

    #[test]
    fn targets_are_the_sums() {
        let task = AddTask::new(4).unwrap();
        let mut seen = HashSet::new();
        for index in 0..2000 {
            let example = task.example(0, Split::Train, index);
            let source = task.show(&example.source).replace(' ', "");
            let target = task.show(expected(&task, &example)).replace(' ', "");
            let (a, b) = source.split_once('+').unwrap();
            let sum = a.parse::<u64>().unwrap() + b.parse::<u64>().unwrap();
            assert_eq!(target, sum.to_string(), "{source}");
            for number in [a, b] {
                assert!(number == "0" || !number.starts_with('0'), "{source}");
            }
            seen.insert((a.len(), b.len()));
        }
        assert_eq!(seen.len(), 16, "{seen:?}");
    }

    #[test]
    fn a_length_is_that_of_the_longer_number() {
        let task = AddTask::new(2).unwrap();
        for example in examples_of_length(&task, 0, Split::Test, 30, 100) {
            let source = task.show(&example.source).replace(' ', "");
            let (a, b) = source.split_once('+').unwrap();
            assert_eq!(a.len().max(b.len()), 30);
            let sum = a.parse::<u128>().unwrap() + b.parse::<u128>().unwrap();
            let target = task.show(expected(&task, &example)).replace(' ', "");
            assert_eq!(target, sum.to_string());
        }
    }

    #[test]
    fn carries_go_all_the_way() {
        assert_eq!(sum(&[9, 9, 9], &[1]), [1, 0, 0, 0]);
        assert_eq!(sum(&[0], &[0]), [0]);
        assert_eq!(sum(&[1, 2, 3, 4], &[5, 6, 7]), [1, 8, 0, 1]);
    }

    #[test]
    fn digits_and_plus_can_be_written() {
        let task = AddTask::new(4).unwrap();
        assert_eq!(task.parse("0 9 + 1").unwrap(), [4, 13, 14, 5]);
        let error = task.parse("1 - 2").unwrap_err().to_string();
        let expected = "\"-\" is not a symbol, which are 0 to 9, + in this run";
        assert_eq!(error, expected);
        assert_eq!((task.source_vocab_size(), task.max_len()), (15, 9));
        assert_eq!(task.max_tokens(1), 4);
    }

    #[test]
    fn impossible_numbers_of_digits_are_refused() {
        for digits in [0, 1001, usize::MAX] {
            let error = AddTask::new(digits).unwrap_err().to_string();
            let expected = "must be at least 1 and at most 1000";
            assert_eq!(error, format!("--max-digits {digits}: {expected}"));
        }
    }
}
