//! What there is to learn. A synthetic task is a function from (seed, split, index) to a pair, of
//! which nothing is stored. The model is not known here.

pub mod add;
pub mod alphabet;
pub mod annotated;
pub mod config;
pub mod sequence;
mod split;

use std::collections::HashSet;
use std::ops::RangeInclusive;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use transformer::generate::LengthLimit;

pub use add::AddTask;
pub use alphabet::Alphabet;
pub use annotated::AnnotatedCopy;
pub use config::{SequenceConfig, TaskConfig};
pub use sequence::{Rule, SequenceTask};
pub use split::Split;

use crate::error::quote;

/// What tasks draw from: the same numbers on every platform.
pub type TaskRng = ChaCha8Rng;

/// The generator of one place in a run: the same numbers whenever it is asked for.
pub fn generator(seed: u64, split: Split, index: u64) -> TaskRng {
    TaskRng::from_seed(key(seed, split, index))
}

fn key(seed: u64, split: Split, index: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&index.to_le_bytes());
    key[16] = split as u8;
    key
}

/// A source and what a decoder should make of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Example {
    /// What the encoder reads.
    pub source: Vec<u32>,
    /// From the begin symbol to the end symbol: the decoder reads all but the last token and
    /// predicts all but the first.
    pub target: Vec<u32>,
}

/// Draws of which one is of the wanted split, unless a task has almost no sources.
const DRAWS: usize = 10_000;

/// What a run learns, as training, evaluation and generation see it: examples, and words for ids.
pub trait Task: Send + Sync {
    /// Number of token ids of sources.
    fn source_vocab_size(&self) -> usize;

    /// Number of token ids of targets.
    fn target_vocab_size(&self) -> usize;

    /// Fills short sequences up.
    fn pad_id(&self) -> u32;

    /// The first token of every target.
    fn bos_id(&self) -> u32;

    /// The last token of every target, if they have one.
    fn eos_id(&self) -> Option<u32>;

    /// The most tokens that a source or target can have.
    fn max_len(&self) -> usize;

    /// The most tokens that a source has.
    fn max_source(&self) -> usize {
        self.max_len()
    }

    /// The most bytes of a text that are worth being taken apart; none where that takes no time.
    fn max_bytes(&self) -> Option<usize> {
        None
    }

    /// The examples of one training batch, counted from 1: a function of its arguments alone.
    /// `size` is the number of sequences, where the task has no measure of its own.
    fn batch(&self, seed: u64, index: usize, size: usize) -> Vec<Example>;

    /// Up to `n` examples of a split; fewer where it has no more.
    fn held_out(&self, seed: u64, split: Split, n: usize) -> Vec<Example>;

    /// Whether an output, without begin and end symbol, is right.
    fn is_right(&self, example: &Example, output: &[u32]) -> bool;

    /// A source as a person would write it.
    fn show_source(&self, ids: &[u32]) -> String;

    /// A target as a person would write it.
    fn show(&self, ids: &[u32]) -> String;

    /// The name of one token of sources.
    fn source_token(&self, id: u32) -> String;

    /// The name of one token of targets.
    fn token(&self, id: u32) -> String;

    /// The id of a target's token by its [name](Self::token), special tokens too.
    fn token_id(&self, name: &str) -> Option<u32>;

    /// What sources and targets are made of, in words.
    fn symbols(&self) -> String;

    /// What the encoder reads for a text.
    ///
    /// # Errors
    ///
    /// The first word that is no symbol.
    fn parse_source(&self, text: &str) -> Result<Vec<u32>, ParseError>;

    /// The tokens of a target, without begin and end symbol.
    ///
    /// # Errors
    ///
    /// The first word that is no symbol.
    fn parse(&self, text: &str) -> Result<Vec<u32>, ParseError>;

    /// What the target of an example should be, in words; `place` is its place in what
    /// [`held_out`](Self::held_out) gives.
    fn reference(&self, _place: usize, example: &Example) -> String {
        self.show(expected(self, example))
    }

    /// Whether targets are texts, of which many can be good: they are scored by BLEU and chrF.
    fn is_text(&self) -> bool {
        false
    }

    /// How long an output may become by its source, if there is no other limit than what the model
    /// can take.
    fn length_limit(&self) -> Option<LengthLimit> {
        None
    }

    /// Batches after which every example was there once, if there is an end to them.
    fn batches_per_epoch(&self) -> Option<usize> {
        None
    }

    /// The task as one whose examples can be made of any length, if they can.
    fn synthetic(&self) -> Option<&dyn SyntheticTask> {
        None
    }
}

/// A task whose examples are made, not read: symbols, lengths, and a pair of a given length. The
/// [`Task`] follows from these; `examples/custom_task.rs` is a task of a page.
pub trait SyntheticTask: Task {
    /// The tokens of sources and targets.
    fn alphabet(&self) -> &Alphabet;

    /// The lengths that are trained on, in whatever the task counts: symbols of the source, digits
    /// of a number.
    fn lengths(&self) -> RangeInclusive<usize>;

    /// A random source of a length, also of one that is not trained on, and what should be made of
    /// it, without begin and end symbol.
    fn pair(&self, length: usize, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>);

    /// The most tokens that a source or a target of a length can have; a target counts with its
    /// begin and end symbol. Not the default if some have more symbols than `length`.
    fn max_tokens(&self, length: usize) -> usize {
        length + 2
    }

    /// Whether an output counts as right: by default, if it is the target.
    fn accepts(&self, example: &Example, output: &[u32]) -> bool {
        output == expected(self, example)
    }

    /// A random pair to train on; by default all lengths are equally likely.
    fn draw(&self, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>) {
        let length = rng.random_range(self.lengths());
        self.pair(length, rng)
    }

    /// One pair of a split: a function of its arguments alone.
    ///
    /// # Panics
    ///
    /// If the task has so few sources that none is of this split.
    fn example(&self, seed: u64, split: Split, index: u64) -> Example {
        let mut rng = generator(seed, split, index);
        first_of(self, split, || self.draw(&mut rng))
            .unwrap_or_else(|| panic!("no source of the {split:?} split in {DRAWS} draws"))
    }

    /// Whether a token can stand in a sequence that a person writes: special tokens cannot.
    fn is_symbol(&self, id: u32) -> bool {
        self.alphabet().symbols().contains(&id)
    }
}

impl<T: SyntheticTask> Task for T {
    fn source_vocab_size(&self) -> usize {
        self.alphabet().vocab_size()
    }

    fn target_vocab_size(&self) -> usize {
        self.alphabet().vocab_size()
    }

    fn pad_id(&self) -> u32 {
        self.alphabet().pad_id()
    }

    fn bos_id(&self) -> u32 {
        self.alphabet().bos_id()
    }

    fn eos_id(&self) -> Option<u32> {
        self.alphabet().eos_id()
    }

    fn max_len(&self) -> usize {
        self.max_tokens(*self.lengths().end())
    }

    /// One example after the other.
    fn batch(&self, seed: u64, index: usize, size: usize) -> Vec<Example> {
        let first = (index as u64 - 1) * size as u64;
        (first..first + size as u64)
            .map(|index| self.example(seed, Split::Train, index))
            .collect()
    }

    /// Examples with different sources.
    fn held_out(&self, seed: u64, split: Split, n: usize) -> Vec<Example> {
        let examples = (0..100 * n as u64).map(|index| self.example(seed, split, index));
        distinct(examples, n)
    }

    fn is_right(&self, example: &Example, output: &[u32]) -> bool {
        self.accepts(example, output)
    }

    fn show_source(&self, ids: &[u32]) -> String {
        self.alphabet().show(ids)
    }

    fn show(&self, ids: &[u32]) -> String {
        self.alphabet().show(ids)
    }

    fn source_token(&self, id: u32) -> String {
        self.alphabet().show(&[id])
    }

    fn token(&self, id: u32) -> String {
        self.alphabet().show(&[id])
    }

    fn token_id(&self, name: &str) -> Option<u32> {
        self.alphabet().id(name)
    }

    fn symbols(&self) -> String {
        self.alphabet().in_words()
    }

    fn parse_source(&self, text: &str) -> Result<Vec<u32>, ParseError> {
        self.parse(text)
    }

    /// The ids of symbols separated by white space: the inverse of [`show`](Task::show).
    fn parse(&self, text: &str) -> Result<Vec<u32>, ParseError> {
        let parse = |word: &str| {
            self.token_id(word)
                .filter(|&id| self.is_symbol(id))
                .ok_or_else(|| ParseError {
                    word: word.into(),
                    symbols: self.symbols(),
                })
        };
        text.split_whitespace().map(parse).collect()
    }

    fn synthetic(&self) -> Option<&dyn SyntheticTask> {
        Some(self)
    }
}

/// The first pair of a split, its target between begin and end symbol.
fn first_of<T: SyntheticTask + ?Sized>(
    task: &T,
    split: Split,
    draw: impl FnMut() -> (Vec<u32>, Vec<u32>),
) -> Option<Example> {
    let (source, output) = std::iter::repeat_with(draw)
        .take(DRAWS)
        .find(|(source, _)| Split::of(source) == split)?;
    let mut target = vec![task.bos_id()];
    target.extend(output);
    target.extend(task.eos_id());
    Some(Example { source, target })
}

/// A word that is no symbol of a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a symbol, which are {symbols} in this run", quote(word))]
pub struct ParseError {
    /// The word.
    pub word: String,
    /// What would have been right, in words.
    pub symbols: String,
}

/// What a decoder should produce: the target without begin and end.
pub fn expected<'a, T: Task + ?Sized>(task: &T, example: &'a Example) -> &'a [u32] {
    let target = &example.target[1..];
    match task.eos_id() {
        Some(_) => &target[..target.len() - 1],
        None => target,
    }
}

/// Whether every split has sources: a task of a few sources cannot hold any out.
pub fn has_all_splits(task: &dyn SyntheticTask) -> bool {
    Split::ALL.into_iter().all(|split| {
        let mut rng = generator(0, split, 0);
        first_of(task, split, || task.draw(&mut rng)).is_some()
    })
}

/// Up to `n` examples of one length with different sources; fewer, or none, where the split has no
/// more.
pub fn examples_of_length(
    task: &dyn SyntheticTask,
    seed: u64,
    split: Split,
    length: usize,
    n: usize,
) -> Vec<Example> {
    let example = |index| {
        let mut key = key(seed, split, index);
        // 0 is every length's: the key of `generator`.
        key[24..].copy_from_slice(&(length as u64).to_le_bytes());
        let mut rng = TaskRng::from_seed(key);
        first_of(task, split, || task.pair(length, &mut rng))
    };
    distinct((0..100 * n as u64).map_while(example), n)
}

fn distinct(examples: impl Iterator<Item = Example>, n: usize) -> Vec<Example> {
    let mut seen = HashSet::new();
    examples
        .filter(|example| seen.insert(example.source.clone()))
        .take(n)
        .collect()
}

#[cfg(test)]
mod tests;
