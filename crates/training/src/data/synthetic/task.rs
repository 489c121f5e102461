//! Tasks whose examples are computed, not read.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use rand::{RngExt, SeedableRng};

use super::alphabet::Alphabet;
use crate::data::example::{DataRng, Example, generator, key};
use crate::data::split::Split;

/// Maximum number of draws for an example of the wanted split. Only a task with almost no sources
/// needs more.
const DRAWS: usize = 10_000;

/// A task whose examples are a function of (seed, split, index): symbols, lengths, and a pair of a
/// given length. It is a [`Dataset`](crate::data::Dataset) without further code.
/// `examples/custom_task.rs` trains on such a task.
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
    /// Returns the tokens of sources and targets.
    fn alphabet(&self) -> &Alphabet;

    /// Returns the lengths that are trained on, in the task's own unit: symbols of the source,
    /// digits of a number.
    fn lengths(&self) -> RangeInclusive<usize>;

    /// Returns a random source of a length and its output, without begin and end symbol. The
    /// length may be one that is not trained on.
    fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>);

    /// Returns the maximum number of tokens in the source or target of a pair of this length. A
    /// target counts with its begin and end symbol. Override it if sequences have more than
    /// `length` symbols.
    fn max_tokens(&self, length: usize) -> usize {
        length + 2
    }

    /// Whether an output is correct; by default, if it equals the example's.
    fn accepts(&self, example: &Example, output: &[u32]) -> bool {
        output == example.output(self.alphabet().eos_id().is_some())
    }

    /// Returns a random pair to train on; by default, all lengths are equally likely.
    fn draw(&self, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        let length = rng.random_range(self.lengths());
        self.pair(length, rng)
    }
}

/// Returns one example of a split: a function of its arguments alone.
///
/// # Panics
///
/// If the task has so few sources that none is of this split.
pub fn example(task: &dyn SyntheticTask, seed: u64, split: Split, index: u64) -> Example {
    let mut rng = generator(seed, split, index);
    first_of(task, split, || task.draw(&mut rng))
        .unwrap_or_else(|| panic!("no source of the {split:?} split in {DRAWS} draws"))
}

/// Whether every split has sources: a task of a few sources cannot hold any out.
pub fn has_all_splits(task: &dyn SyntheticTask) -> bool {
    Split::ALL.into_iter().all(|split| {
        let mut rng = generator(0, split, 0);
        first_of(task, split, || task.draw(&mut rng)).is_some()
    })
}

/// Returns up to `n` examples of one length with different sources; fewer, or none, where the split
/// has no more.
pub fn examples_of_length(
    task: &dyn SyntheticTask,
    seed: u64,
    split: Split,
    length: usize,
    n: usize,
) -> Vec<Example> {
    let example = |index| {
        let mut key = key(seed, split, index);
        // Examples of mixed lengths have 0 here.
        key[24..].copy_from_slice(&(length as u64).to_le_bytes());
        let mut rng = DataRng::from_seed(key);
        first_of(task, split, || task.pair(length, &mut rng))
    };
    distinct((0..100 * n as u64).map_while(example), n)
}

/// Draws until a pair belongs to the split. Returns it, with begin and end symbol in the target.
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
