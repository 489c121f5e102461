//! How well a model does on each length, past the lengths of training, too.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use transformer::generate::Method;
use transformer::{Positions, Transformer, TransformerConfig};

use crate::disk::write_json;
use crate::error::UsageError;
use crate::evaluate;
use crate::run_folder::wrong;
use crate::task::{Split, SyntheticTask, Task, examples_of_length};

/// A run folder's exact match by length.
pub const FILE: &str = "lengths.json";

/// How well a model does on one length: an object of `lengths.json`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthScore {
    /// The length, as the task counts it.
    pub length: usize,
    /// Different sequences that were decoded: fewer than asked for where the split has no more,
    /// none where the model has no positions for them.
    pub sequences: usize,
    /// Share of them that are right; none if there are none.
    pub exact_match: Option<f64>,
    /// Share of their tokens predicted right, given the right ones before; none if there are none.
    pub token_accuracy: Option<f64>,
    /// Whether training had sequences of this length.
    pub trained: bool,
}

/// Which lengths are evaluated at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthsConfig {
    /// The lengths, ascending.
    pub lengths: Vec<usize>,
    /// Different sequences of each, where there are so many.
    pub sequences: usize,
}

impl LengthsConfig {
    /// Refuses what cannot be evaluated.
    ///
    /// # Errors
    ///
    /// The first such number.
    pub fn check(&self) -> Result<(), UsageError> {
        if !(1..=1_000_000).contains(&self.sequences) {
            let expected = "must be at least 1 and at most 1000000";
            return Err(UsageError::new("--sequences", self.sequences, expected));
        }
        if self.lengths.is_empty() {
            let expected = "must name at least one length, such as 4,8,16 or 1..32";
            return Err(UsageError::new("--eval-lengths", "", expected));
        }
        match self.lengths.iter().find(|&n| !(1..=LONGEST).contains(n)) {
            None => Ok(()),
            Some(length) => {
                let expected = format!("must be at least 1 and at most {LONGEST}");
                Err(UsageError::new("--eval-lengths", length, expected))
            }
        }
    }
}

/// Nobody asks for more, and attention to so many takes a gigabyte a sequence.
pub const LONGEST: usize = 10_000;

/// What is evaluated of each length.
#[derive(Clone, Debug)]
pub struct LengthSettings {
    /// Seed of the run.
    pub seed: u64,
    /// Part of the data.
    pub split: Split,
    /// Different sequences of each length, where there are so many.
    pub sequences: usize,
    /// How they are decoded.
    pub method: Method,
    /// Sequences at a time; none for as many as are quick.
    pub batch_size: Option<usize>,
}

/// A model with positions for all lengths, as far as its kind of positions has them.
pub struct ByLength<'a> {
    task: &'a dyn SyntheticTask,
    model: Transformer,
    config: TransformerConfig,
    device: Device,
}

/// The same configuration with positions for these lengths: computed positions go on, learned ones
/// are as many as were learned.
pub fn lengthened(
    config: &TransformerConfig,
    task: &dyn SyntheticTask,
    lengths: &[usize],
) -> TransformerConfig {
    let tokens = lengths.iter().map(|&length| task.max_tokens(length));
    let max_len = match config.positions {
        Positions::Learned => config.max_len,
        Positions::Sinusoidal
        | Positions::SinusoidalHalves
        | Positions::Rotary
        | Positions::None => tokens.fold(config.max_len, usize::max),
    };
    config.clone().with_max_len(max_len)
}

impl<'a> ByLength<'a> {
    /// Takes the parameters of a model of this configuration.
    ///
    /// # Errors
    ///
    /// A model of another configuration.
    pub fn new(
        model: &Transformer,
        config: &TransformerConfig,
        task: &'a dyn SyntheticTask,
        lengths: &[usize],
        device: &Device,
    ) -> Result<Self> {
        let config = lengthened(config, task, lengths);
        let device = device.clone().without_autodiff();
        let longer = config.init_seeded(0, &device)?;
        let record = model.valid().into_record();
        let model = longer
            .try_load_record(record)
            .context("the model is not of this configuration")?;
        Ok(Self {
            task,
            model,
            config,
            device,
        })
    }

    /// Decodes and scores sequences of one length.
    pub fn of_length(&self, length: usize, settings: &LengthSettings) -> LengthScore {
        let mut result = LengthScore {
            length,
            sequences: 0,
            exact_match: None,
            token_accuracy: None,
            trained: self.task.lengths().contains(&length),
        };
        let tokens = self.task.max_tokens(length);
        if tokens > self.config.max_len {
            return result;
        }
        let LengthSettings { seed, split, .. } = *settings;
        let examples = examples_of_length(self.task, seed, split, length, settings.sequences);
        let task: &dyn Task = self.task;
        let decoding = evaluate::decoding(task, &examples, settings.method);
        if examples.is_empty() || decoding.max_length == 0 {
            return result;
        }
        let size = settings.batch_size.or(Some(self.batch_size(tokens)));
        let decoded = evaluate::decode(&self.model, task, &examples, size, &decoding);
        let score = evaluate::teacher_forced(&self.model, task, &examples, size, &self.device);
        result.sequences = examples.len();
        result.exact_match = Some(evaluate::exact_match(&decoded));
        result.token_accuracy = Some(score.token_accuracy);
        result
    }

    /// As many sequences as keep logits and attention weights under 64 MiB.
    fn batch_size(&self, tokens: usize) -> usize {
        let row = tokens
            * self
                .task
                .target_vocab_size()
                .max(self.config.n_heads * tokens);
        ((1 << 24) / row).clamp(1, 250)
    }
}

/// Writes `lengths.json` into a run folder. It appears whole or not at all.
///
/// # Errors
///
/// If it cannot be written.
pub fn save(folder: &Path, lengths: &[LengthScore]) -> Result<()> {
    let path = folder.join(FILE);
    write_json(&path, lengths).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a run folder's `lengths.json`, if it has one; shorter lengths come first.
///
/// # Errors
///
/// A file that cannot be read or is damaged; the message names it.
pub fn read(folder: &Path) -> Result<Option<Vec<LengthScore>>, UsageError> {
    let path = folder.join(FILE);
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&path, format!("cannot be read ({error})"))),
    };
    let mut scores: Vec<LengthScore> = serde_json::from_slice(&json).map_err(|error| {
        let what =
            format!("is damaged, must be a list of lengths as --eval-lengths writes it ({error})");
        wrong(&path, what)
    })?;
    scores.sort_by_key(|score| score.length);
    Ok(Some(scores))
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn by_length(positions: Positions, lengths: &[usize]) -> Vec<LengthScore> {
        let mut config = RunConfig::copy();
        config.model = config.model.with_d_model(8).with_d_ff(8);
        config.model.positions = positions;
        let task = config.resolve().unwrap();
        let device = Device::flex();
        let model = config.model.init_seeded(1, &device).unwrap();
        let by_length = ByLength::new(
            &model,
            &config.model,
            task.synthetic().unwrap(),
            lengths,
            &device,
        )
        .unwrap();
        let of_length = |&length| by_length.of_length(length, &settings());
        lengths.iter().map(of_length).collect()
    }

    #[test]
    fn computed_positions_go_on_and_learned_ones_end() {
        let lengths = [4, 16, 17, 40];
        for positions in [Positions::Sinusoidal, Positions::Rotary, Positions::None] {
            let found = by_length(positions, &lengths);
            assert!(found.iter().all(|of| of.sequences == 10), "{found:?}");
            assert!(found.iter().all(|of| of.exact_match.is_some()));
            let trained = found.iter().map(|of| of.trained);
            assert!(trained.eq([true, true, false, false]));
        }
        let found = by_length(Positions::Learned, &lengths);
        let sequences: Vec<usize> = found.iter().map(|of| of.sequences).collect();
        assert_eq!(sequences, [10, 10, 0, 0]);
        assert_eq!(
            (found[2].exact_match, found[2].token_accuracy),
            (None, None)
        );
    }

    #[test]
    fn a_longer_model_is_the_same_where_both_have_positions() {
        let short = by_length(Positions::Sinusoidal, &[4, 9]);
        let long = by_length(Positions::Sinusoidal, &[4, 9, 300]);
        assert_eq!(short, long[..2]);
    }

    #[test]
    fn lengths_without_sequences_have_no_numbers() {
        let mut config = RunConfig::annotated();
        config.model = config.model.with_d_model(8).with_d_ff(8);
        let task = config.resolve().unwrap();
        let device = Device::flex();
        let model = config.model.init_seeded(1, &device).unwrap();
        let by_length = ByLength::new(
            &model,
            &config.model,
            task.synthetic().unwrap(),
            &[1, 12],
            &device,
        )
        .unwrap();
        let one = by_length.of_length(1, &settings());
        assert_eq!((one.sequences, one.exact_match), (0, None));
        assert_eq!(by_length.of_length(12, &settings()).sequences, 10);
    }

    #[test]
    fn a_file_goes_there_and_back() {
        let folder = tempfile::tempdir().unwrap();
        let found = by_length(Positions::Learned, &[2, 99]);
        save(folder.path(), &found).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Some(found.clone()));
        let error = save(&folder.path().join("none"), &found).unwrap_err();
        assert!(error.to_string().contains("lengths.json"), "{error}");
    }
}
