//! The settings that define a run, saved as `config.json` in its folder.

use serde::{Deserialize, Serialize};
use transformer::TransformerConfig;

use super::model::ModelSettings;
use super::{
    BestBy, CheckpointingConfig, EvaluationConfig, ExecutionConfig, LoraConfig, OptimizationConfig,
};
use crate::data::parallel::TextConfig;
use crate::data::{DataConfig, Dataset, SYNTHETIC_TASKS, TASK};
use crate::error::{UsageError, check_values};
use crate::setting::{Kind, Section, Setting, json, whole};

/// The settings of a run, in sections.
///
/// Begin with one of the presets, such as [`reverse`](Self::reverse), change the settings that you need to change,
/// and then call [`check`](Self::check).
///
/// ```
/// use training::config::RunConfig;
///
/// let mut config = RunConfig::copy();
/// config.optimization.steps = 0;
/// let error = config.check().err().unwrap();
/// assert_eq!(error.to_string(), "optimization.steps 0: must be a whole number of at least 1 and at most 1000000000");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Seed for parameter initialisation, data order and dropout.
    pub seed: u64,
    /// Data set and its settings.
    pub data: DataConfig,
    /// Model hyper-parameters. Vocabulary sizes and `pad_id` follow from the data set, and so does
    /// `max_len` unless the model is pretrained.
    pub model: TransformerConfig,
    /// Settings of the parameter updates.
    pub optimization: OptimizationConfig,
    /// Settings of evaluations, and of early stopping.
    pub evaluation: EvaluationConfig,
    /// Settings that say when checkpoints are written, and how many are kept.
    pub checkpointing: CheckpointingConfig,
    /// Settings that say where and how the run computes.
    pub execution: ExecutionConfig,
}

/// Declaration of the seed.
pub const SEED: &Setting = &whole(0, u64::MAX).flag("--seed", "N").named(
    "seed",
    &["Seed for parameter initialisation, data order and dropout."],
    "u64",
);

/// Settings and groups of settings of all runs, but those of the task.
const SECTIONS: [&[&Setting]; 5] = [
    ModelSettings::SETTINGS,
    OptimizationConfig::SETTINGS,
    EvaluationConfig::SETTINGS,
    CheckpointingConfig::SETTINGS,
    ExecutionConfig::SETTINGS,
];

/// Returns all settings of all tasks and the groups of settings, in the order of the sections. A
/// path is there for each task that has it.
pub fn all_settings() -> Vec<&'static Setting> {
    let tasks = SYNTHETIC_TASKS.iter().map(|task| (task.data)().settings());
    with_members(tasks.chain([TextConfig::SETTINGS]))
}

/// Returns the declaration of the setting or group at a path of `config.json`; `None` if there is
/// none.
pub fn setting_at(path: &str) -> Option<&'static Setting> {
    find(&all_settings(), path)
}

/// Returns the setting or group of `settings` at a path, or the one that the path is a part of, as
/// in `data.max_length.source`.
pub(super) fn find(settings: &[&'static Setting], path: &str) -> Option<&'static Setting> {
    let mut settings = settings.iter();
    let found = settings.find(|setting| {
        path.strip_prefix(setting.path).is_some_and(|rest| {
            let is_side = setting.has_sides && [".source", ".target"].contains(&rest);
            let is_inside = setting.is_derived && rest.starts_with('.');
            rest.is_empty() || is_side || is_inside
        })
    });
    found.copied()
}

/// Returns the settings of all runs and those of `data`, with the groups of settings.
fn with_members(
    data: impl IntoIterator<Item = &'static [&'static Setting]>,
) -> Vec<&'static Setting> {
    fn add(settings: &[&'static Setting], all: &mut Vec<&'static Setting>) {
        for setting in settings {
            all.push(setting);
            if let Kind::Group(settings, _) = setting.kind {
                add(settings, all);
            }
        }
    }
    let mut all = vec![SEED, TASK];
    for settings in data.into_iter().chain(SECTIONS) {
        add(settings, &mut all);
    }
    all
}

impl RunConfig {
    /// Returns the settings of this run's task and of all tasks, and the groups of settings, in the
    /// order of the sections.
    pub fn table(&self) -> Vec<&'static Setting> {
        with_members([self.data.settings()])
    }

    /// Checks the settings. If the data set needs no file, also fits the model to the data set, and
    /// returns the data set.
    ///
    /// Returns `None` if the data set is read from files. Then only those settings of the model are
    /// checked that do not depend on the vocabularies, and none of a pretrained model;
    /// [`fit_to`](Self::fit_to) checks the others.
    ///
    /// # Errors
    ///
    /// If a setting is wrong. The error names the first one.
    pub fn check(&mut self) -> Result<Option<Box<dyn Dataset>>, UsageError> {
        let dataset = self.data.check()?;
        match &dataset {
            Some(dataset) => self.fit_to(dataset.as_ref())?,
            None => self.check_settings().and_then(|()| self.check_layers())?,
        }
        Ok(dataset)
    }

    /// Fits the model's vocabulary sizes, `pad_id` and maximum length, and the number of steps, to
    /// a data set. Checks all settings that do not belong to the data set.
    ///
    /// # Errors
    ///
    /// If a setting is wrong. The error names the first one.
    pub fn fit_to(&mut self, dataset: &dyn Dataset) -> Result<(), UsageError> {
        self.check_settings()?;
        let has_bleu = dataset.text_scores(&[]).is_some();
        let is_valid = has_bleu || self.evaluation.best_by != BestBy::Bleu;
        let expected = "needs the text task, whose targets are texts";
        UsageError::check(is_valid, EvaluationConfig::best_by, "bleu", expected)?;
        if let Some(epochs) = self.optimization.epochs {
            if let Some(batches) = dataset.batches_per_epoch() {
                let accumulate = self.optimization.accumulate;
                self.optimization.steps = epochs * batches.div_ceil(accumulate);
            } else if dataset.synthetic().is_some() {
                let expected = "is for data with an end; the examples of this task have none";
                let setting = OptimizationConfig::epochs;
                return Err(UsageError::setting(setting, epochs, expected));
            }
        }
        let vocabularies = dataset.codec().vocabularies();
        self.model.source_vocab_size = vocabularies.source_size;
        self.model.target_vocab_size = vocabularies.target_size;
        self.model.pad_id = vocabularies.pad_ids.source;
        let longest = dataset.limits().sequence();
        self.model.max_len = match &self.data {
            // A pretrained model keeps its maximum length, unless its positions are computed and
            // the data set has longer sequences.
            DataConfig::Text(text) if text.pretrained.is_some() => self.model.max_len.max(longest),
            _ => longest,
        };
        self.model.validate()?;
        self.check_size(dataset.batch_tokens())
    }

    /// Checks the model of a text run before its vocabularies are known. The settings of a
    /// pretrained model are compared with its folder later.
    fn check_layers(&self) -> Result<(), UsageError> {
        if matches!(&self.data, DataConfig::Text(text) if text.pretrained.is_some()) {
            return Ok(());
        }
        let mut model = self.model.clone();
        (model.source_vocab_size, model.target_vocab_size) = (1, 1);
        (model.pad_id, model.max_len) = (0, 2);
        Ok(model.validate()?)
    }

    fn check_settings(&self) -> Result<(), UsageError> {
        let (values, model) = (json(self), &self.model);
        // The model checks its settings itself.
        for settings in &SECTIONS[1..] {
            let section = settings[0].path.split('.').next().unwrap_or_default();
            check_values(settings, &values[section])?;
        }
        if serde_json::from_value::<Self>(values).ok().as_ref() != Some(self) {
            let expected = "must be finite: JSON has neither NaN nor infinity";
            return Err(UsageError::new("numbers", "", expected));
        }
        if let Some(LoraConfig { rank, .. }) = self.optimization.lora {
            // LoRA also changes the matrices of the feed-forward networks. Their rank is at most
            // the smaller of `d_model` and `d_ff`.
            let most = model.d_model.min(model.d_ff);
            let (width, inner) = (ModelSettings::d_model.name(), ModelSettings::d_ff.name());
            let expected = format!("must be at most {most}, the smaller of {width} and {inner}");
            UsageError::check(rank <= most, LoraConfig::rank, rank, expected)?;
        }
        self.execution.check()
    }

    /// Rejects models of more than about 4e9 parameters, and batches whose hidden states or logits
    /// can have more than 4e9 elements, before memory runs out. `batch_tokens` is the maximum
    /// number of source tokens in a batch, and also the maximum number of target tokens; `None` if
    /// batches are limited by their number of sequences.
    fn check_size(&self, batch_tokens: Option<usize>) -> Result<(), UsageError> {
        const MOST: f64 = 4e9;
        let model = &self.model;
        let [d, f, v] = [model.d_model, model.d_ff, model.target_vocab_size].map(|x| x as f64);
        let layers = (model.n_encoder_layers + model.n_decoder_layers) as f64;
        let parameters = layers * (6.0 * d * d + 3.0 * d * f) + 3.0 * v * d;
        let n_layers = ModelSettings::n_encoder_layers.name();
        let inner = ModelSettings::d_ff.name();
        let expected = format!(
            "with {n_layers} {}, {inner} {} and {v} symbols makes about {parameters:.0e} parameters, must be at most 4e9",
            model.n_encoder_layers, model.d_ff
        );
        let width = ModelSettings::d_model;
        UsageError::check(parameters <= MOST, width, model.d_model, expected)?;
        let (max_len, size) = (model.max_len, self.optimization.batch_size);
        let (setting, value, tokens) = match batch_tokens {
            Some(tokens) => (TextConfig::batch_tokens, tokens, tokens.max(max_len)),
            None => (OptimizationConfig::batch_size, size, size * max_len),
        };
        let elements = tokens as f64 * d.max(f).max(v);
        let expected = format!(
            "with sequences of {max_len} tokens makes activations of {elements:.0e} elements, must be at most 4e9"
        );
        UsageError::check(elements <= MOST, setting, value, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    #[test]
    fn the_model_is_fitted_to_the_data_set() {
        let mut config = RunConfig::copy();
        config.check().unwrap();
        assert_eq!(config.model.source_vocab_size, 36);
        assert_eq!(config.model.max_len, 18);
        let mut config = RunConfig::of_preset("annotated-copy").unwrap();
        config.check().unwrap();
        assert_eq!(config.model.target_vocab_size, 11);
        assert_eq!((config.model.d_model, config.model.d_ff), (512, 2048));
        assert_eq!(config.model.dropout, 0.1);
    }

    #[test]
    fn wrong_settings_are_named_by_their_paths() {
        let error = |change: fn(&mut RunConfig)| {
            let mut config = RunConfig::copy();
            change(&mut config);
            config.check().err().unwrap().to_string()
        };
        assert_eq!(
            error(|config| config.optimization.accumulate = 100_001),
            "optimization.accumulate 100001: must be a whole number of at least 1 and at most 100000"
        );
        assert_eq!(
            error(|config| config.optimization.schedule.warmup = 0),
            "optimization.schedule.warmup 0: must be a whole number of at least 1"
        );
        assert_eq!(
            error(|config| config.optimization.optimizer.clip_norm = Some(0.0)),
            "optimization.optimizer.clip_norm 0.0: must be a positive number"
        );
        assert_eq!(
            error(|config| config.optimization.epochs = Some(3)),
            "optimization.epochs 3: is for data with an end; the examples of this task have none"
        );
        assert_eq!(
            error(|config| config.evaluation.target = Some(1.5)),
            "evaluation.target 1.5: must be an exact match above 0 and at most 1"
        );
        assert_eq!(
            error(|config| config.checkpointing.seconds = Some(f64::NAN)),
            "numbers: must be finite: JSON has neither NaN nor infinity"
        );
        assert_eq!(
            error(|config| config.optimization.batch_size = 1_000_000_000),
            "optimization.batch_size 1000000000: with sequences of 18 tokens makes activations of 5e12 elements, must be at most 4e9"
        );
        let huge = error(|config| config.model.d_model = 64_000);
        assert_has(&huge, &["model.d_model 64000: with --layers 1, --d-ff 256"]);
    }
}
