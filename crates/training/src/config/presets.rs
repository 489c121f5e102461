//! Presets: settings that solve each synthetic task on two CPU cores, and settings for texts.

use transformer::{NormPlacement, TransformerConfig};

use super::{
    BestBy, CheckpointingConfig, EvaluationConfig, ExecutionConfig, OptimizationConfig, RunConfig,
    Schedule,
};
use crate::data::parallel::TextConfig;
use crate::data::{DataConfig, NamedTask, SYNTHETIC_TASKS};

/// Size of a model for texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSize {
    /// For several thousand sentence pairs: `d_model` 128, 2 encoder and 2 decoder layers.
    Tiny,
    /// For tens of thousands of sentence pairs: `d_model` 256, 3 encoder and 3 decoder layers.
    Small,
    /// The size of the base model of Vaswani et al. 2017: `d_model` 512, 6 encoder and 6 decoder
    /// layers.
    Base,
}

/// Name and description of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of a task, or of a model size for texts.
    pub name: &'static str,
    /// One-line description of the preset.
    pub summary: &'static str,
}

/// Presets for texts, in the order in which they are listed: size, name, description and settings.
/// Small models are for small data sets. Their batches are small, too, so that an epoch has enough
/// steps. The largest learning rates are 0.0022 for `Tiny`, 0.0011 for `Small` and 0.0007 for `Base`.
const TEXT: [(TextSize, Preset, &[&str]); 3] = [
    (
        TextSize::Tiny,
        Preset {
            name: "tiny",
            summary: "Texts, some thousand pairs: d_model 128, 2 layers per side",
        },
        &[
            "data.tokenizer.vocab_size=2000",
            "data.batch_tokens=512",
            "model.d_model=128",
            "model.n_heads=4",
            "model.n_encoder_layers=2",
            "model.n_decoder_layers=2",
            "optimization.schedule.factor=0.35",
            "optimization.schedule.warmup=200",
        ],
    ),
    (
        TextSize::Small,
        Preset {
            name: "small",
            summary: "Texts, some ten thousand pairs: d_model 256, 3 layers per side",
        },
        &[
            "data.tokenizer.vocab_size=6000",
            "data.batch_tokens=2048",
            "model.d_model=256",
            "model.n_heads=8",
            "model.n_encoder_layers=3",
            "model.n_decoder_layers=3",
            "model.d_ff=512",
            "optimization.schedule.factor=0.35",
            "optimization.schedule.warmup=400",
        ],
    ),
    (
        TextSize::Base,
        Preset {
            name: "base",
            summary: "Texts, many pairs: the paper's base model, d_model 512, 6 layers per side",
        },
        &[
            "data.tokenizer.vocab_size=16000",
            "data.batch_tokens=4096",
            "model.d_model=512",
            "model.n_heads=8",
            "model.n_encoder_layers=6",
            "model.n_decoder_layers=6",
            "model.d_ff=2048",
            "optimization.schedule.factor=0.7",
            "optimization.schedule.warmup=2000",
        ],
    ),
];

impl Preset {
    /// Returns all presets: those of synthetic tasks, then those for texts.
    pub fn all() -> Vec<Self> {
        let tasks = SYNTHETIC_TASKS.iter().map(|task| Self {
            name: task.name,
            summary: task.summary,
        });
        tasks.chain(TEXT.map(|(_, preset, _)| preset)).collect()
    }
}

impl RunConfig {
    /// Returns the default settings of the task that has this name in `config.json`; `None` for
    /// `custom` and for a name without a task.
    pub fn of_task(name: &str) -> Option<Self> {
        if name == "text" {
            return Some(Self::text(TextSize::Small));
        }
        let task = SYNTHETIC_TASKS.iter().find(|task| task.name == name)?;
        Some(Self::synthetic(task))
    }

    /// Returns the settings of the preset with this name; `None` if there is no such preset.
    pub fn of_preset(name: &str) -> Option<Self> {
        match TEXT.iter().find(|(_, preset, _)| preset.name == name) {
            Some((size, ..)) => Some(Self::text(*size)),
            None if name == "text" => None,
            None => Self::of_task(name),
        }
    }

    /// Returns settings that solve the copy task: 32 symbols, lengths 1 to 16.
    pub fn copy() -> Self {
        Self::of_name("copy")
    }

    /// Returns the settings of the Annotated Transformer's copy task.
    pub fn annotated() -> Self {
        Self::of_name("annotated-copy")
    }

    /// Returns settings that solve the reverse task.
    pub fn reverse() -> Self {
        Self::of_name("reverse")
    }

    /// Returns settings that solve the sort task.
    pub fn sort() -> Self {
        Self::of_name("sort")
    }

    /// Returns settings that solve the addition of numbers of up to four digits.
    pub fn add() -> Self {
        Self::of_name("add")
    }

    fn of_name(task: &str) -> Self {
        Self::of_task(task).expect("the task is registered")
    }

    /// Returns the settings that solve a synthetic task.
    fn synthetic(task: &NamedTask) -> Self {
        Self::of_data((task.data)()).with_all(task.recipe)
    }

    /// Returns settings for the translation of texts. The paths of the corpora are empty, and the
    /// caller must set those of the training corpus.
    pub fn text(size: TextSize) -> Self {
        let (.., settings) = TEXT
            .iter()
            .find(|(known, ..)| *known == size)
            .expect("it is there");
        let mut config = Self::of_data(DataConfig::Text(Box::new(TextConfig::DEFAULT)));
        config.model.dropout = 0.1;
        config.optimization.epochs = Some(10);
        config.optimization.optimizer.clip_norm = Some(1.0);
        config.optimization.label_smoothing = 0.1;
        config.evaluation.best_by = BestBy::Bleu;
        config.evaluation.validation_size = 2000;
        config.evaluation.test_size = 2000;
        config.with_all(settings)
    }

    /// Returns settings that fine-tune a pretrained model on texts, with about a tenth of the usual
    /// learning rates. `text` names the model's tokeniser. If `text` has no training corpus, the
    /// caller must set its paths.
    pub fn fine_tuning(text: TextConfig, model: TransformerConfig) -> Self {
        let mut config = Self::text(TextSize::Small);
        config.data = DataConfig::Text(Box::new(text));
        config.model = model;
        config.optimization.epochs = Some(3);
        config.optimization.label_smoothing = 0.0;
        config.optimization.schedule = Schedule {
            learning_rate: Some(1e-4),
            ..Schedule::linear(1.0, 100)
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
        }
        assert_eq!(RunConfig::of_preset("small"), RunConfig::of_task("text"));
        for name in ["text", "large"] {
            assert!(RunConfig::of_preset(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_presets_have_the_settings_of_the_documentation() {
        let config = RunConfig::annotated();
        assert_eq!(
            (config.model.d_model, config.optimization.batch_size),
            (512, 30)
        );
        assert_eq!(config.optimization.schedule.warmup, 400);
        assert_eq!(config.evaluation.every, Some(20));
        let config = RunConfig::sort();
        assert_eq!((config.model.n_heads, config.optimization.steps), (4, 3000));
        assert_eq!(config.optimization.schedule, Schedule::linear(1.0, 100));
    }
}
