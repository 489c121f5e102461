//! Examples to train and evaluate on.

use std::path::Path;

use anyhow::Result;
use transformer::generate::LengthLimit;

use super::synthetic::task::SyntheticTask;
use super::{Codec, Decoded, Example, Split};

/// Bounds on the lengths of sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Maximum tokens of a source.
    pub source: usize,
    /// Maximum tokens of a target, with its begin and end symbol.
    pub target: usize,
    /// Maximum bytes of a text that is worth tokenising; `None` where encoding takes no time.
    pub bytes: Option<usize>,
    /// Maximum length of an output by its source; `None` where only the model limits it.
    pub output: Option<LengthLimit>,
}

impl Limits {
    /// Returns the maximum tokens of a source or target.
    pub fn sequence(&self) -> usize {
        self.source.max(self.target)
    }
}

/// Examples to train and evaluate on, and how outputs are judged.
///
/// An implementation is a function of its settings: the same arguments give the same examples in
/// every process. For data that are computed from a random seed, implement [`SyntheticTask`]
/// instead, which is a `Dataset` without further code.
///
/// ```
/// use training::data::{Alphabet, Codec, Dataset, Example, Limits, Scorer, Split};
///
/// /// Three names and their initials.
/// struct Initials(Alphabet);
///
/// impl Initials {
///     fn example(&self, index: usize) -> Example {
///         let name = ["a d a", "b o b", "e v e"][index % 3];
///         let source = self.0.encode_source(name).expect("names consist of letters");
///         let target = vec![self.0.bos_id(), source[0], self.0.eos_id().unwrap()];
///         Example { source, target }
///     }
/// }
///
/// impl Dataset for Initials {
///     fn codec(&self) -> &dyn Codec {
///         &self.0
///     }
///
///     fn limits(&self) -> Limits {
///         Limits { source: 3, target: 3, bytes: None, output: None }
///     }
///
///     fn batch(&self, _seed: u64, index: usize, size: usize) -> Vec<Example> {
///         (0..size).map(|n| self.example((index - 1) * size + n)).collect()
///     }
///
///     fn held_out(&self, _seed: u64, _split: Split, n: usize) -> Vec<Example> {
///         (0..n.min(3)).map(|index| self.example(index)).collect()
///     }
///
///     fn scorer(&self) -> &dyn Scorer {
///         self
///     }
/// }
///
/// impl Scorer for Initials {
///     fn accepts(&self, example: &Example, output: &[u32]) -> bool {
///         output == example.output(true)
///     }
///
///     fn reference(&self, _index: usize, example: &Example) -> String {
///         self.0.decode_target(example.output(true))
///     }
/// }
///
/// let data = Initials(Alphabet::new(('a'..='z').map(String::from))?);
/// let batch = data.batch(0, 2, 2);
/// assert_eq!(data.codec().decode_source(&batch[0].source), "e v e");
/// assert_eq!(data.scorer().reference(0, &batch[0]), "e");
/// # Ok::<(), transformer::VocabularyError>(())
/// ```
pub trait Dataset: Send + Sync {
    /// Returns the translation between text and ids.
    fn codec(&self) -> &dyn Codec;

    /// Returns the bounds on the lengths of sequences.
    fn limits(&self) -> Limits;

    /// Returns the examples of training batch `index`, counted from 1. `size` is the number of
    /// sequences; data sets with another limit, such as tokens, ignore it.
    fn batch(&self, seed: u64, index: usize, size: usize) -> Vec<Example>;

    /// Returns up to `n` examples of a split; fewer where the split has no more.
    fn held_out(&self, seed: u64, split: Split, n: usize) -> Vec<Example>;

    /// Returns the scorer of outputs.
    fn scorer(&self) -> &dyn Scorer;

    /// Returns the number of batches in which every example occurs once; `None` for examples
    /// without end.
    fn batches_per_epoch(&self) -> Option<usize> {
        None
    }

    /// Returns the maximum tokens of each side of a batch, padding included, for data sets whose
    /// batches have a number of tokens instead of a number of sequences.
    fn batch_tokens(&self) -> Option<usize> {
        None
    }

    /// Returns the task that makes examples of any length, for data sets that can.
    fn synthetic(&self) -> Option<&dyn SyntheticTask> {
        None
    }

    /// Writes what a trained model needs besides its run's configuration, such as tokenizers, into
    /// the run's folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    fn save(&self, _run: &Path) -> Result<()> {
        Ok(())
    }
}

/// Judges a model's outputs.
pub trait Scorer {
    /// Whether an output, without begin and end symbol, is correct.
    fn accepts(&self, example: &Example, output: &[u32]) -> bool;

    /// Returns the reference text of example `index` of [`Dataset::held_out`].
    fn reference(&self, index: usize, example: &Example) -> String;

    /// Returns scores of texts, for data sets whose targets are texts with many good
    /// translations. `decoded` begins with the first held-out example.
    fn text_scores(&self, _decoded: &[Decoded]) -> Option<TextScores> {
        None
    }
}

/// Corpus scores of output texts against their references.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextScores {
    /// BLEU, from 0 to 100.
    pub bleu: f64,
    /// chrF, from 0 to 100.
    pub chrf: f64,
}
