//! The interface of data sets.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use transformer::generate::{GenerateConfig, GenerateDefaults, LengthLimit};

use super::synthetic::task::SyntheticTask;
use super::{Codec, Decoded, Example, Split};

/// Limits on the lengths of sequences and texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Maximum number of tokens of a source, with the special tokens around it if it has any.
    pub source: usize,
    /// Maximum number of tokens of a target, with its begin symbol and, if it has one, its end
    /// symbol.
    pub target: usize,
    /// Whether a source or target with more tokens than a model can take is truncated, as texts are;
    /// otherwise it is an error.
    pub truncates: bool,
    /// Maximum length of an output as a function of its source's length; `None` for no such limit.
    pub output: Option<LengthLimit>,
}

impl Limits {
    /// Returns the larger of the limits `source` and `target`, in tokens.
    pub fn sequence(&self) -> usize {
        self.source.max(self.target)
    }
}

/// Examples to train and evaluate on, with their codec. Judges the outputs of a model, too.
///
/// An implementation must be deterministic: with the same settings, the same arguments give the
/// same examples in every process. For examples that are computed from a random seed, implement
/// [`SyntheticTask`] instead; every synthetic task is a `Dataset`.
///
/// ```
/// use training::data::{Alphabet, Codec, Dataset, Example, Limits, Split};
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
///         Limits { source: 3, target: 3, truncates: false, output: None }
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
///     fn accepts(&self, _index: usize, example: &Example, output: &[u32]) -> bool {
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
/// assert_eq!(data.reference(0, &batch[0]), "e");
/// # Ok::<(), transformer::VocabularyError>(())
/// ```
pub trait Dataset: Send + Sync {
    /// Returns the codec that translates between text and token ids.
    fn codec(&self) -> &dyn Codec;

    /// Returns the limits on the lengths of sequences and texts.
    fn limits(&self) -> Limits;

    /// Returns the examples of training batch `index`, counted from 1. `size` is the number of
    /// sequences. Data sets that limit a batch by its tokens ignore `size`.
    fn batch(&self, seed: u64, index: usize, size: usize) -> Vec<Example>;

    /// Returns up to `n` examples of a split; fewer if the split has too few.
    fn held_out(&self, seed: u64, split: Split, n: usize) -> Vec<Example>;

    /// Returns whether `output`, without begin and end symbol, is correct for `example`. `index` is
    /// the index of the example in [`held_out`](Self::held_out).
    fn accepts(&self, index: usize, example: &Example, output: &[u32]) -> bool;

    /// Returns the reference text of `example`. `index` has the same meaning as in
    /// [`accepts`](Self::accepts).
    fn reference(&self, index: usize, example: &Example) -> String;

    /// Returns the corpus scores of decoded examples; `None` if targets are not texts, so BLEU and
    /// chrF do not apply. `decoded[i]` belongs to example `i` of [`held_out`](Self::held_out).
    fn text_scores(&self, _decoded: &[Decoded]) -> Option<TextScores> {
        None
    }

    /// Returns the number of batches in an epoch, in which every training example occurs once;
    /// `None` if the data set has no epochs.
    fn batches_per_epoch(&self) -> Option<usize> {
        None
    }

    /// Returns the maximum number of tokens on each side of a batch, padding included; `None` if
    /// batches are limited by their number of sequences. The source tokens and the target tokens of
    /// a batch are counted separately. A batch of a single example may have more tokens.
    fn batch_tokens(&self) -> Option<usize> {
        None
    }

    /// Returns the default generation settings of the data set.
    fn search(&self) -> GenerateDefaults {
        let vocabularies = self.codec().vocabularies();
        GenerateDefaults::new(vocabularies.bos_id, vocabularies.eos_id)
    }

    /// Returns the decoding settings of [`search`](Self::search). If these have no maximum length,
    /// the limits of the data set apply.
    fn search_config(&self) -> GenerateConfig {
        let (search, limits) = (self.search(), self.limits());
        let output = limits.output.filter(|_| search.max_length.is_none());
        // `limits.target` counts the begin symbol, which is not generated.
        search.config(limits.target - 1).with_length_limit(output)
    }

    /// Returns this data set as a synthetic task, which can make examples of any length; `None` if
    /// the data set is not a synthetic task.
    fn synthetic(&self) -> Option<&dyn SyntheticTask> {
        None
    }

    /// Returns the token ids of a source that a user has written. A source of a synthetic task must be
    /// one that [the task has](SyntheticTask::check_source), or blank.
    ///
    /// # Errors
    ///
    /// What is wrong with the source.
    fn source(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoded = self.codec().encode_source(text);
        let ids = encoded.map_err(|error| error.to_string())?;
        let task = self.synthetic().filter(|_| !ids.is_empty());
        task.map_or(Ok(()), |task| task.check_source(&ids))?;
        Ok(ids)
    }

    /// Writes the files that a trained model needs in addition to its run's `config.json`, such as
    /// tokenisers, into the run's folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    fn save(&self, _run: &Path) -> Result<()> {
        Ok(())
    }
}

/// Corpus scores of output texts against their references.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TextScores {
    /// BLEU, from 0 to 100.
    pub bleu: f64,
    /// chrF, from 0 to 100.
    pub chrf: f64,
}
