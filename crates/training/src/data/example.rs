//! Examples of a data set, and the random generator that they are made with.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::split::Split;

/// Random generator of data sets. It gives the same numbers on every platform.
pub type DataRng = ChaCha8Rng;

/// Returns the random generator for one example or epoch. It depends only on the arguments.
pub fn generator(seed: u64, split: Split, index: u64) -> DataRng {
    DataRng::from_seed(key(seed, split, index))
}

/// Returns the 32-byte key that [`generator`] seeds its random generator with. The last eight bytes
/// of the key are 0. A caller can set these bytes to get other random numbers.
pub(crate) fn key(seed: u64, split: Split, index: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&index.to_le_bytes());
    key[16] = split as u8;
    key
}

/// A source sequence and its target sequence, as token ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Example {
    /// Token ids that the encoder reads.
    pub source: Vec<u32>,
    /// Token ids: the begin symbol, the output and, if the data set has one, the end symbol. The
    /// decoder reads all tokens but the last, and predicts all tokens but the first.
    pub target: Vec<u32>,
}

impl Example {
    /// Returns the tokens that a decoder should generate: the target without its begin symbol and,
    /// if `has_eos`, without its end symbol.
    ///
    /// # Panics
    ///
    /// If the target is too short to have these symbols.
    pub fn output(&self, has_eos: bool) -> &[u32] {
        &self.target[1..self.target.len() - usize::from(has_eos)]
    }
}

/// A model's output for one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The example whose source was decoded.
    pub example: Example,
    /// The model's output, without begin and end symbol.
    pub output: Vec<u32>,
    /// Whether the data set accepts the output as correct.
    pub is_exact: bool,
}
