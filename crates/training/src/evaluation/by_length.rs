//! Scores of a model by sequence length, including lengths that it was not trained on.

use anyhow::Result;
use burn::module::Module;
use serde::{Deserialize, Serialize};
use transformer::generate::{GenerateError, Method};
use transformer::{Positions, Transformer, TransformerConfig};

use super::batches::rows;
use super::{decode, exact_match, generate_config, judge, teacher_forced};
use crate::collective::Collective;
use crate::config::LengthsConfig;
use crate::data::synthetic::examples_of_length;
use crate::data::{Dataset, Split, SyntheticTask};
use crate::error::UsageError;

/// Scores on sequences of one length: an object of `lengths.json`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthScore {
    /// Length of the sequences, in the unit of the task.
    pub length: usize,
    /// Number of different sequences that were decoded. It is smaller than requested if the split
    /// has fewer sequences, and 0 if the model has no positions for this length or outputs of this
    /// length are empty.
    pub sequences: usize,
    /// Fraction of sequences whose decoded output is correct; `None` if `sequences` is 0.
    pub exact_match: Option<f64>,
    /// Fraction of tokens predicted correctly, each from the correct tokens before it; `None` if
    /// `sequences` is 0.
    pub token_accuracy: Option<f64>,
    /// Whether the model was trained on sequences of this length.
    pub trained: bool,
}

/// Settings of an evaluation by length.
#[derive(Clone, Debug)]
pub struct LengthSettings {
    /// Seed of the run.
    pub seed: u64,
    /// Split from which the sequences are taken.
    pub split: Split,
    /// Maximum number of different sequences of each length.
    pub sequences: usize,
    /// Decoding method.
    pub method: Method,
    /// Number of sequences per forward pass; `None` chooses the number by the length.
    pub batch_size: Option<usize>,
}

/// Evaluates a model by length. The model gets positions for all lengths if its positional encoding
/// allows that.
pub struct ByLength<'a> {
    dataset: &'a dyn Dataset,
    task: &'a dyn SyntheticTask,
    model: Transformer,
    config: TransformerConfig,
    group: &'a dyn Collective,
}

/// Returns `config` with a `max_len` that is enough for sequences of `lengths`. With learned
/// positions, `max_len` is unchanged, because a learned table cannot be extended.
pub fn lengthened(
    config: &TransformerConfig,
    task: &dyn SyntheticTask,
    lengths: &[usize],
) -> TransformerConfig {
    let tokens = lengths.iter().map(|&length| task.max_tokens(length));
    let max_len = match config.positions {
        Positions::Learned => config.max_len,
        _ => tokens.fold(config.max_len, usize::max),
    };
    config.clone().with_max_len(max_len)
}

impl<'a> ByLength<'a> {
    /// Prepares the evaluation of a model with configuration `config` on sequences of `lengths`.
    /// The processes of `group` divide the work; [`Alone`](crate::collective::Alone) is the group
    /// of a single process.
    ///
    /// # Errors
    ///
    /// If the data set is not [synthetic](Dataset::synthetic).
    pub fn new(
        model: &Transformer,
        config: &TransformerConfig,
        dataset: &'a dyn Dataset,
        lengths: &[usize],
        group: &'a dyn Collective,
    ) -> Result<Self> {
        let task = Self::task_of(Some(dataset))?;
        let config = lengthened(config, task, lengths);
        let model = model.valid().with_max_len(config.max_len);
        Ok(Self {
            dataset,
            task,
            model,
            config,
            group,
        })
    }

    /// Returns the synthetic task of a data set, which is `None` for texts that are not read yet. The
    /// task generates sequences of any length.
    ///
    /// # Errors
    ///
    /// If the data set is not synthetic.
    pub fn task_of(dataset: Option<&dyn Dataset>) -> Result<&dyn SyntheticTask, UsageError> {
        dataset.and_then(Dataset::synthetic).ok_or_else(|| {
            let expected =
                "is for tasks whose sequences can be made of any length; text has its own";
            UsageError::setting(LengthsConfig::lengths, "", expected)
        })
    }

    /// Decodes and scores sequences of one length.
    ///
    /// # Errors
    ///
    /// If a setting does not fit the model, or if the logits are not finite.
    pub fn of_length(
        &self,
        length: usize,
        settings: &LengthSettings,
    ) -> Result<LengthScore, GenerateError> {
        let mut result = LengthScore {
            length,
            sequences: 0,
            exact_match: None,
            token_accuracy: None,
            trained: self.task.lengths().contains(&length),
        };
        let tokens = self.task.max_tokens(length);
        if tokens > self.config.max_len {
            return Ok(result);
        }
        let LengthSettings { seed, split, .. } = *settings;
        let examples = examples_of_length(self.task, seed, split, length, settings.sequences);
        let generate = generate_config(self.dataset, &examples, settings.method);
        if examples.is_empty() || generate.max_length == 0 {
            return Ok(result);
        }
        let (model, dataset) = (&self.model, self.dataset);
        let size = settings.batch_size.or(Some(self.batch_size(tokens)));
        let outputs = decode(model, dataset, &examples, size, &generate, self.group)?;
        let decoded = judge(dataset, &examples, outputs);
        let score = teacher_forced(model, dataset, &examples, size, self.group);
        result.sequences = examples.len();
        result.exact_match = Some(exact_match(&decoded));
        result.token_accuracy = Some(score.token_accuracy);
        Ok(result)
    }

    /// Returns the number of sequences of `tokens` tokens per forward pass, from 1 to 250. Unless
    /// it is 1, the logits and the attention weights of a layer take at most 64 MiB each in f32.
    fn batch_size(&self, tokens: usize) -> usize {
        let vocab_size = self.config.target_vocab_size;
        rows(tokens * vocab_size.max(self.config.n_heads * tokens))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::collective::Alone;
    use crate::config::RunConfig;

    fn settings() -> LengthSettings {
        LengthSettings {
            seed: 0,
            split: Split::Test,
            sequences: 10,
            method: Method::Greedy,
            batch_size: None,
        }
    }

    fn by_length(mut config: RunConfig, lengths: &[usize]) -> Vec<LengthScore> {
        config.model = config.model.with_d_model(8).with_d_ff(8);
        let dataset = config.check().unwrap().unwrap();
        let device = Device::flex();
        let model = config.model.init_seeded(1, &device).unwrap();
        let by_length =
            ByLength::new(&model, &config.model, dataset.as_ref(), lengths, &Alone).unwrap();
        let of_length = |&length| by_length.of_length(length, &settings()).unwrap();
        lengths.iter().map(of_length).collect()
    }

    fn copy(positions: Positions, lengths: &[usize]) -> Vec<LengthScore> {
        let mut config = RunConfig::copy();
        config.model.positions = positions;
        by_length(config, lengths)
    }

    #[test]
    fn computed_positions_extend_and_learned_ones_end() {
        let lengths = [4, 16, 17, 40];
        for positions in [Positions::Sinusoidal, Positions::Rotary, Positions::None] {
            let found = copy(positions, &lengths);
            assert!(found.iter().all(|of| of.sequences == 10), "{found:?}");
            assert!(found.iter().all(|of| of.exact_match.is_some()));
            let trained = found.iter().map(|of| of.trained);
            assert!(trained.eq([true, true, false, false]));
        }
        let found = copy(Positions::Learned, &lengths);
        let sequences: Vec<usize> = found.iter().map(|of| of.sequences).collect();
        assert_eq!(sequences, [10, 10, 0, 0]);
        assert_eq!(
            (found[2].exact_match, found[2].token_accuracy),
            (None, None)
        );
    }

    #[test]
    fn more_positions_do_not_change_scores_of_short_sequences() {
        let short = copy(Positions::Sinusoidal, &[4, 9]);
        let long = copy(Positions::Sinusoidal, &[4, 9, 300]);
        assert_eq!(short, long[..2]);
    }

    #[test]
    fn lengths_without_sequences_have_no_scores() {
        let found = by_length(RunConfig::of_preset("annotated-copy").unwrap(), &[1, 12]);
        assert_eq!((found[0].sequences, found[0].exact_match), (0, None));
        assert_eq!(found[1].sequences, 10);
    }
}
