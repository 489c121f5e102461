//! Presets: settings that solve each synthetic task on two CPU cores, and settings for texts.

use transformer::weights::Layout;
use transformer::{NormPlacement, TransformerConfig};

use super::{
    CheckpointingConfig, EvaluationConfig, ExecutionConfig, OptimizationConfig, RunConfig, Schedule,
};
use crate::data::parallel::TextConfig;
use crate::data::{DataConfig, Preset, SYNTHETIC_TASKS};
use crate::error::UsageError;

/// Settings of all presets for texts.
const OF_TEXTS: &str = "model.dropout=0.1 optimization.epochs=10 optimization.optimizer.clip_norm=1 \
    optimization.label_smoothing=0.1 evaluation.best_by=bleu evaluation.validation_size=2000";

/// Presets for texts. Small models are for small data sets. Their batches are small, too, so that an
/// epoch has enough steps. The largest learning rates are 0.0022 for `tiny`, 0.0011 for `small` and
/// 0.0007 for `base`.
pub(super) const TEXTS: [Preset; 3] = [
    Preset {
        name: "tiny",
        summary: "Texts, some thousand pairs: d_model 128, 2 layers per side",
        recipe: "data.tokenizer.vocab_size=2000 data.batch_tokens=512 model.d_model=128 \
            model.n_heads=4 model.n_encoder_layers=2 model.n_decoder_layers=2 \
            optimization.schedule.factor=0.35 optimization.schedule.warmup=200",
        data: text,
    },
    Preset {
        name: "small",
        summary: "Texts, some ten thousand pairs: d_model 256, 3 layers per side",
        recipe: "data.tokenizer.vocab_size=6000 data.batch_tokens=2048 model.d_model=256 \
            model.n_heads=8 model.n_encoder_layers=3 model.n_decoder_layers=3 model.d_ff=512 \
            optimization.schedule.factor=0.35 optimization.schedule.warmup=400",
        data: text,
    },
    Preset {
        name: "base",
        summary: "Texts, many pairs (the paper's): d_model 512, 6 layers per side",
        recipe: "data.tokenizer.vocab_size=16000 data.batch_tokens=4096 model.d_model=512 \
            model.n_heads=8 model.n_encoder_layers=6 model.n_decoder_layers=6 model.d_ff=2048 \
            optimization.schedule.factor=0.7 optimization.schedule.warmup=2000",
        data: text,
    },
];

fn text() -> DataConfig {
    DataConfig::Text(Box::new(TextConfig::DEFAULT))
}

impl Preset {
    /// Returns all presets: those of synthetic tasks, then those for texts.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        SYNTHETIC_TASKS.iter().chain(&TEXTS)
    }

    /// Returns the settings.
    pub(super) fn config(&self) -> RunConfig {
        let config = RunConfig::of_data((self.data)());
        let is_text = matches!(config.data, DataConfig::Text(_));
        let common = if is_text { OF_TEXTS } else { "" };
        config.with_all(common).with_all(self.recipe)
    }
}

impl RunConfig {
    /// Returns the default settings of the task that has this name in `config.json`; `None` for
    /// `custom` and for a name without a task.
    pub fn of_task(name: &str) -> Option<Self> {
        if name == "text" {
            return Some(Self::text("small"));
        }
        let task = SYNTHETIC_TASKS.iter().find(|task| task.name == name);
        task.map(Preset::config)
    }

    /// Returns the settings of the preset with this name; `None` if there is no such preset.
    pub fn of_preset(name: &str) -> Option<Self> {
        let preset = Preset::all().find(|preset| preset.name == name);
        preset.map(Preset::config)
    }

    /// Returns settings that solve the copy task: 32 symbols, lengths 1 to 16.
    pub fn copy() -> Self {
        Self::of_name("copy")
    }

    /// Returns settings that solve the reverse task.
    pub fn reverse() -> Self {
        Self::of_name("reverse")
    }

    /// Returns settings for the translation of texts. The paths of the corpora are empty, and the
    /// caller must set those of the training corpus.
    ///
    /// # Panics
    ///
    /// If `size` is not `tiny`, `small` or `base`.
    pub fn text(size: &str) -> Self {
        Self::of_name(size)
    }

    /// Gives the model the [choices](Layout::choices) of a family.
    ///
    /// # Errors
    ///
    /// If the models of the family are not whole models of text.
    pub fn choose_family(&mut self, family: Layout) -> Result<(), UsageError> {
        self.model = family.choices(self.model.clone())?;
        if let DataConfig::Text(text) = &mut self.data {
            text.tokenizer.joint |= self.model.weight_tying.shares_source();
        }
        Ok(())
    }

    fn of_name(name: &str) -> Self {
        Self::of_preset(name).expect("it is a preset")
    }

    /// Returns settings that fine-tune a pretrained model on texts, with about a tenth of the usual
    /// learning rates. `text` names the model's tokeniser. If `text` has no training corpus, the
    /// caller must set its paths.
    pub(crate) fn fine_tuning(text: TextConfig, model: TransformerConfig) -> Self {
        let mut config = Self::text("small");
        config.data = DataConfig::Text(Box::new(text));
        config.model = model;
        config.optimization.epochs = Some(3);
        config.optimization.label_smoothing = 0.0;
        config.optimization.schedule = Schedule {
            learning_rate: Some(1e-4),
            ..Schedule::DEFAULT
        };
        config
    }

    /// Returns default settings for this data.
    fn of_data(data: DataConfig) -> Self {
        Self {
            seed: 0,
            data,
            model: TransformerConfig::new(0, 0)
                .with_d_model(64)
                .with_n_heads(2)
                .with_n_encoder_layers(1)
                .with_n_decoder_layers(1)
                .with_d_ff(256)
                .with_dropout(0.0)
                .with_norm_placement(NormPlacement::Pre),
            optimization: OptimizationConfig::DEFAULT,
            evaluation: EvaluationConfig::DEFAULT,
            checkpointing: CheckpointingConfig::DEFAULT,
            execution: ExecutionConfig::DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BestBy;

    #[test]
    fn every_preset_makes_a_run() {
        for task in SYNTHETIC_TASKS {
            let mut config = RunConfig::of_task(task.name).unwrap();
            assert_eq!(config.data.name(), task.name);
            config.check().unwrap();
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
        }
        assert_eq!(RunConfig::of_task("text").unwrap().data.name(), "text");
        assert!(RunConfig::of_task("custom").is_none());
    }

    #[test]
    fn presets_are_the_tasks_and_the_sizes_for_texts() {
        for preset in Preset::all() {
            let config = RunConfig::of_preset(preset.name).unwrap();
            let is_task = RunConfig::of_task(preset.name).is_some();
            assert_eq!(config.data.name() == "text", !is_task, "{}", preset.name);
            let is_by_bleu = config.evaluation.best_by == BestBy::Bleu;
            assert_eq!(is_by_bleu, !is_task, "{}", preset.name);
        }
        assert_eq!(RunConfig::of_preset("small"), RunConfig::of_task("text"));
        for name in ["text", "large"] {
            assert!(RunConfig::of_preset(name).is_none(), "{name}");
        }
    }
}
