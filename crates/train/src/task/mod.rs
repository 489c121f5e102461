//! What there is to learn. A task is a function from (seed, split, index) to a pair; nothing is
//! stored, and the model is not known here.

pub mod copy;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use copy::{AnnotatedCopy, CopyTask};

use crate::error::quote;

/// Parts of the data that share no sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// What the model learns from.
    Train,
    /// What is looked at during training.
    Validation,
    /// What is decoded at the end.
    Test,
}

impl Split {
    /// The split of a source sequence, by its hash: 1/16 each for validation and test. It depends
    /// on nothing else, so that no run of any seed trains on another's test sequences.
    pub fn of(source: &[u32]) -> Self {
        match hash(source) % 16 {
            0 => Self::Test,
            1 => Self::Validation,
            _ => Self::Train,
        }
    }
}

/// FNV-1a over the ids, and a final mix, since its low bits alone are weak.
fn hash(ids: &[u32]) -> u64 {
    let fnv = ids
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// The generator of one place in a run: the same numbers whenever it is asked for.
pub fn generator(seed: u64, split: Split, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&index.to_le_bytes());
    key[16] = split as u8;
    ChaCha8Rng::from_seed(key)
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

/// A sequence-to-sequence task.
pub trait Task {
    /// Number of token ids.
    fn vocab_size(&self) -> usize;

    /// Fills short sequences up.
    fn pad_id(&self) -> u32;

    /// The first token of every target.
    fn bos_id(&self) -> u32;

    /// The last token of every target, if they have one.
    fn eos_id(&self) -> Option<u32>;

    /// The most tokens that a source or target can have.
    fn max_len(&self) -> usize;

    /// One pair of a split: a function of its arguments alone.
    fn example(&self, seed: u64, split: Split, index: u64) -> Example;

    /// A sequence as a person would write it.
    fn show(&self, ids: &[u32]) -> String;

    /// The id of a token by its name in [`show`](Self::show), special tokens too.
    fn token_id(&self, name: &str) -> Option<u32>;

    /// Whether a token can stand in a sequence that a person writes: special tokens cannot.
    fn is_symbol(&self, id: u32) -> bool;

    /// The symbols, in words.
    fn symbols(&self) -> String;

    /// The ids of symbols separated by white space: the inverse of [`show`](Self::show).
    ///
    /// # Errors
    ///
    /// The first word that is no symbol.
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
pub fn expected<'a>(task: &dyn Task, example: &'a Example) -> &'a [u32] {
    let target = &example.target[1..];
    match task.eos_id() {
        Some(_) => &target[..target.len() - 1],
        None => target,
    }
}

/// Up to `n` examples with different sources; fewer where the split has no more.
pub fn distinct_examples(task: &dyn Task, seed: u64, split: Split, n: usize) -> Vec<Example> {
    let mut seen = std::collections::HashSet::new();
    (0..100 * n as u64)
        .map(|index| task.example(seed, split, index))
        .filter(|example| seen.insert(example.source.clone()))
        .take(n)
        .collect()
}
