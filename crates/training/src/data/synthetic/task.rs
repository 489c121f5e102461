//! Synthetic tasks, whose examples are computed instead of read from files.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use rand::{RngExt, SeedableRng};

use super::alphabet::Alphabet;
use crate::data::example::{DataRng, Example, generator, key};
use crate::data::split::Split;

/// Maximum number of random pairs that are drawn to find one whose source belongs to the wanted
/// split. Only a task with very few different sources needs more.
const DRAWS: usize = 10_000;

/// A task whose examples are a function of (seed, split, index).
///
/// An implementation provides an alphabet, the lengths to train on, and a function that returns a
/// random pair of a given length. Every synthetic task is a [`Dataset`](crate::data::Dataset).
/// `examples/custom_task.rs` trains on a synthetic task.
///
/// ```
/// use std::ops::RangeInclusive;
///
/// use rand::RngExt;
/// use training::data::{Alphabet, Codec, DataRng, Dataset, Split, SyntheticTask};
///
/// /// The target is the first symbol of the source, twice.
/// struct FirstTwice(Alphabet);
///
/// impl SyntheticTask for FirstTwice {
///     fn alphabet(&self) -> &Alphabet {
///         &self.0
///     }
///
///     fn lengths(&self) -> RangeInclusive<usize> {
///         2..=5
///     }
///
///     fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
///         let symbol = |_| rng.random_range(self.0.symbols());
///         let source: Vec<u32> = (0..length).map(symbol).collect();
///         let output = vec![source[0]; 2];
///         (source, output)
///     }
/// }
///
/// let task = FirstTwice(Alphabet::new(["a", "b", "c"])?);
/// let example = &task.held_out(7, Split::Test, 1)[0];
/// let source = task.codec().decode_source(&example.source);
/// let target = task.codec().decode_target(example.output(true));
/// assert_eq!(target, format!("{0} {0}", &source[..1]));
/// # Ok::<(), transformer::VocabularyError>(())
/// ```
pub trait SyntheticTask: Send + Sync {
    /// Returns the alphabet of sources and targets.
    fn alphabet(&self) -> &Alphabet;

    /// Returns the lengths to train on, in the task's own unit, such as symbols of the source or
    /// digits of a number.
    fn lengths(&self) -> RangeInclusive<usize>;

    /// Returns a random source of the given length and its output, without begin and end symbol.
    /// The length may be outside of [`lengths`](Self::lengths).
    fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>);

    /// Returns the maximum number of tokens in the source or target of a pair of this length. A
    /// target counts with its begin and end symbol. Override this method if sequences can have more
    /// than `length` symbols.
    fn max_tokens(&self, length: usize) -> usize {
        length + 2
    }

    /// Checks that [`pair`](Self::pair) can return a source, whatever its length. The error says what a
    /// source must be. By default, all sequences of symbols are sources.
    ///
    /// # Errors
    ///
    /// If the sequence is no source.
    fn check_source(&self, _source: &[u32]) -> Result<(), &'static str> {
        Ok(())
    }

    /// Returns whether an output is correct. By default, it must equal the output of the example.
    fn accepts(&self, example: &Example, output: &[u32]) -> bool {
        output == example.output(self.alphabet().eos_id().is_some())
    }

    /// Returns a random source of one of the [`lengths`](Self::lengths), and its output. By
    /// default, all lengths are equally likely.
    fn draw(&self, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        let length = rng.random_range(self.lengths());
        self.pair(length, rng)
    }
}

/// Returns example `index` of a split. It depends only on the arguments.
///
/// # Panics
///
/// If the task has so few different sources that no source of this split is found.
pub fn example(task: &dyn SyntheticTask, seed: u64, split: Split, index: u64) -> Example {
    let mut rng = generator(seed, split, index);
    first_of(task, split, || task.draw(&mut rng))
        .unwrap_or_else(|| panic!("no source of the {split:?} split in {DRAWS} draws"))
}

/// Returns whether drawing pairs finds a source of every split. If a task has very few sources, all
/// of them may be in the same split.
pub(crate) fn has_all_splits(task: &dyn SyntheticTask) -> bool {
    Split::ALL.into_iter().all(|split| {
        let mut rng = generator(0, split, 0);
        first_of(task, split, || task.draw(&mut rng)).is_some()
    })
}

/// Returns up to `n` examples of one length with different sources; fewer, or none, if the split
/// has too few.
pub fn examples_of_length(
    task: &dyn SyntheticTask,
    seed: u64,
    split: Split,
    length: usize,
    n: usize,
) -> Vec<Example> {
    let example = |index| {
        let mut key = key(seed, split, index);
        // Examples of each length get their own random numbers. The function `example`, which draws
        // the length, leaves these bytes of the key at 0.
        key[24..].copy_from_slice(&(length as u64).to_le_bytes());
        let mut rng = DataRng::from_seed(key);
        first_of(task, split, || task.pair(length, &mut rng))
    };
    distinct((0..100 * n as u64).map_while(example), n)
}

/// Draws pairs until the source of a pair belongs to the split. Returns this pair as an example,
/// with begin and end symbol in the target; `None` after `DRAWS` pairs.
fn first_of(
    task: &dyn SyntheticTask,
    split: Split,
    draw: impl FnMut() -> (Vec<u32>, Vec<u32>),
) -> Option<Example> {
    let mut pairs = std::iter::repeat_with(draw).take(DRAWS);
    let (source, output) = pairs.find(|(source, _)| Split::of(source) == split)?;
    let alphabet = task.alphabet();
    let begin = std::iter::once(alphabet.bos_id());
    let target = begin.chain(output).chain(alphabet.eos_id()).collect();
    Some(Example { source, target })
}

/// Returns the first `n` examples with different sources.
pub(super) fn distinct(examples: impl Iterator<Item = Example>, n: usize) -> Vec<Example> {
    let mut seen = HashSet::new();
    let examples = examples.filter(|example| seen.insert(example.source.clone()));
    examples.take(n).collect()
}
