//! The interface of data sets and of the scorers that judge outputs.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use transformer::generate::{EarlyStopping, GenerateConfig, LengthLimit, LengthPenalty, Method};

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
    /// Maximum number of bytes of a text, which limits the time to tokenise it; `None` for data
    /// sets without a tokeniser.
    pub bytes: Option<usize>,
    /// Maximum length of an output as a function of its source's length; `None` for no such limit.
    pub output: Option<LengthLimit>,
}

impl Limits {
    /// Returns the larger of the limits `source` and `target`, in tokens.
    pub fn sequence(&self) -> usize {
        self.source.max(self.target)
    }
}

/// Default generation settings of a data set or of a pretrained model. Flags of a program may
/// override some of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchDefaults {
    /// Beam width and length penalty; `None` or a width of 1 for greedy decoding.
    pub beam: Option<(usize, LengthPenalty)>,
    /// Token ids with which every output begins.
    pub prefix: Vec<u32>,
    /// Token ids that are never generated, except by `prefix` or `force_end`.
    pub forbidden: Vec<u32>,
    /// Length, in tokens, of the n-grams that an output must not repeat; 0 for no such limit.
    pub no_repeat_ngram: usize,
    /// Repetition penalty: divisor of the positive logits, and factor of the negative logits, of
    /// tokens that the output already has; `None` for 1.
    pub repetition_penalty: Option<f64>,
    /// Minimum number of tokens of an output before its end symbol.
    pub min_length: usize,
    /// Condition that ends a beam search.
    pub early_stopping: EarlyStopping,
    /// Whether an output that reaches its maximum length ends with the end symbol; see
    /// [`GenerateConfig`] for the exceptions.
    pub force_end: bool,
    /// Whether a beam search normalises the logits before the constraints change them; see
    /// [`GenerateConfig`].
    pub normalize_first: bool,
    /// Maximum number of tokens of an output, end symbol included; `None` if the limits of the data
    /// set apply.
    pub max_length: Option<usize>,
}

impl SearchDefaults {
    /// Returns the decoding settings for the vocabularies of `dataset`. The length limits of
    /// `dataset` apply only if `max_length` is `None`. The result lacks `prefix`, for which
    /// [`GenerateConfig`] has no field.
    pub fn config(&self, dataset: &dyn Dataset) -> GenerateConfig {
        let (vocabularies, limits) = (dataset.codec().vocabularies(), dataset.limits());
        // `limits.target` counts the begin symbol, which is not generated.
        let max_length = self.max_length.unwrap_or(limits.target - 1);
        let method = match self.beam {
            None | Some((1, _)) => Method::Greedy,
            Some((width, length_penalty)) => Method::Beam {
                width,
                length_penalty,
            },
        };
        GenerateConfig::new(vocabularies.bos_id, max_length)
            .with_eos_id(vocabularies.eos_id)
            .with_method(method)
            .with_length_limit(limits.output.filter(|_| self.max_length.is_none()))
            .with_min_length(self.min_length)
            .with_repetition_penalty(self.repetition_penalty.unwrap_or(1.0))
            .with_no_repeat_ngram(self.no_repeat_ngram)
            .with_forbidden(self.forbidden.clone())
            .with_early_stopping(self.early_stopping)
            .with_force_end(self.force_end)
            .with_normalize_first(self.normalize_first)
    }
}

/// Examples to train and evaluate on, with their codec and scorer.
///
/// An implementation must be deterministic: with the same settings, the same arguments give the
/// same examples in every process. For examples that are computed from a random seed, implement
/// [`SyntheticTask`] instead; every synthetic task is a `Dataset`.
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
    /// Returns the codec that translates between text and token ids.
    fn codec(&self) -> &dyn Codec;

    /// Returns the limits on the lengths of sequences and texts.
    fn limits(&self) -> Limits;

    /// Returns the examples of training batch `index`, counted from 1. `size` is the number of
    /// sequences. Data sets that limit a batch by its tokens ignore `size`.
    fn batch(&self, seed: u64, index: usize, size: usize) -> Vec<Example>;

    /// Returns up to `n` examples of a split; fewer if the split has too few.
    fn held_out(&self, seed: u64, split: Split, n: usize) -> Vec<Example>;

    /// Returns the scorer that judges a model's outputs.
    fn scorer(&self) -> &dyn Scorer;

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
    fn search(&self) -> SearchDefaults {
        SearchDefaults::default()
    }

    /// Returns this data set as a synthetic task, which can make examples of any length; `None` if
    /// the data set is not a synthetic task.
    fn synthetic(&self) -> Option<&dyn SyntheticTask> {
        None
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

/// Judges a model's outputs.
pub trait Scorer {
    /// Returns whether `output`, without begin and end symbol, is correct for `example`.
    fn accepts(&self, example: &Example, output: &[u32]) -> bool;

    /// Returns the reference text of `example`, which has the index `index` in
    /// [`Dataset::held_out`].
    fn reference(&self, index: usize, example: &Example) -> String;

    /// Returns the corpus scores of decoded examples; `None` if targets are not texts, so BLEU and
    /// chrF do not apply. `decoded[i]` belongs to example `i` of [`Dataset::held_out`].
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
