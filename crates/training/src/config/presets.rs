//! Settings that solve each task on two CPU cores, and those of published models.

use transformer::{NormPlacement, Positions, TransformerConfig};

use super::{
    CheckpointingConfig, EvaluationConfig, ExecutionConfig, OptimizationConfig, OptimizerConfig,
    RunConfig, Schedule, ScheduleKind,
};
use crate::data::DataConfig;
use crate::data::parallel::TextConfig;
use crate::data::synthetic::SequenceConfig;
use crate::data::synthetic::add::AddConfig;

/// Size of a model for texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSize {
    /// For some thousand sentences: d_model 128, 2 layers a side.
    Tiny,
    /// For some ten thousand sentences: d_model 256, 3 layers a side.
    Small,
    /// The paper's base model: d_model 512, 6 layers a side.
    Base,
}

// Reverse, sort and add have learned positions, which the model tells apart sooner than sinusoidal
// ones. Rotary positions alone cannot tell `7` from `7 7`: attention over equal values is that
// value, however many there are.
impl RunConfig {
    /// Returns the default settings of a task, by its name in `config.json`.
    pub fn of_task(name: &str) -> Option<Self> {
        match name {
            "copy" => Some(Self::copy()),
            "reverse" => Some(Self::reverse()),
            "sort" => Some(Self::sort()),
            "add" => Some(Self::add()),
            "annotated-copy" => Some(Self::annotated()),
            "text" => Some(Self::text(TextSize::Small)),
            _ => None,
        }
    }

    /// Returns settings that solve the copy task: 32 symbols, lengths 1 to 16.
    pub fn copy() -> Self {
        Self::sized(DataConfig::Copy(SequenceConfig::default()), 64, 2, 1, 256)
    }

    /// Returns the settings of the Annotated Transformer's copy task, edition of 2018: 10 epochs of
    /// 20 batches of 30, each followed by 5 batches of evaluation.
    pub fn annotated() -> Self {
        let mut config = Self::sized(DataConfig::AnnotatedCopy, 512, 8, 2, 2048);
        config.model.dropout = 0.1;
        config.optimization.steps = 200;
        config.optimization.batch_size = 30;
        config.optimization.schedule = Schedule {
            kind: ScheduleKind::Noam,
            factor: 1.0,
            warmup: 400,
        };
        config.evaluation.every = Some(20);
        config.evaluation.validation_size = 150;
        config
    }

    /// Returns settings that solve the reverse task.
    pub fn reverse() -> Self {
        let data = DataConfig::Reverse(SequenceConfig::default());
        Self::with_learned_positions(data, 1, 1000, linear(1.0, 100))
    }

    /// Returns settings that solve the sort task, with half as many symbols as copy. The last steps
    /// teach it symbols that occur several times.
    pub fn sort() -> Self {
        let data = DataConfig::Sort(SequenceConfig {
            symbols: 16,
            max_length: 12,
            ..SequenceConfig::default()
        });
        Self::with_learned_positions(data, 2, 3000, linear(1.0, 100))
    }

    /// Returns settings that solve the addition of numbers of up to four digits. The last steps
    /// teach it carries over several digits.
    pub fn add() -> Self {
        let data = DataConfig::Add(AddConfig::default());
        Self::with_learned_positions(data, 2, 3000, linear(0.4, 200))
    }

    /// Returns settings for the translation of texts, without corpora.
    pub fn text(size: TextSize) -> Self {
        let (d_model, n_heads, layers, d_ff) = match size {
            TextSize::Tiny => (128, 4, 2, 256),
            TextSize::Small => (256, 8, 3, 512),
            TextSize::Base => (512, 8, 6, 2048),
        };
        // Few sentences get small batches, so that there are enough steps to learn in. The learning
        // rate's peak is 0.0022, 0.0011 and 0.0007.
        let (vocab_size, batch_tokens, factor, warmup) = match size {
            TextSize::Tiny => (2000, 512, 0.35, 200),
            TextSize::Small => (6000, 2048, 0.35, 400),
            TextSize::Base => (16_000, 4096, 0.7, 2000),
        };
        let data = DataConfig::Text(Box::new(TextConfig::new(vocab_size, batch_tokens)));
        let mut config = Self::sized(data, d_model, n_heads, layers, d_ff);
        config.model.dropout = 0.1;
        config.optimization.epochs = Some(10);
        config.optimization.optimizer.clip_norm = Some(1.0);
        config.optimization.schedule = linear(factor, warmup);
        config.optimization.label_smoothing = 0.1;
        config.evaluation.validation_size = 2000;
        config.evaluation.test_size = 2000;
        config
    }

    fn with_learned_positions(
        data: DataConfig,
        layers: usize,
        steps: usize,
        schedule: Schedule,
    ) -> Self {
        let mut config = Self::sized(data, 64, 4, layers, 256);
        config.model.positions = Positions::Learned;
        config.optimization.steps = steps;
        config.optimization.schedule = schedule;
        config
    }

    /// Returns the settings of the copy task with other data and another size of the model, which
    /// has `layers` layers a side.
    fn sized(data: DataConfig, d_model: usize, n_heads: usize, layers: usize, d_ff: usize) -> Self {
        Self {
            seed: 0,
            data,
            model: TransformerConfig::new(0, 0)
                .with_d_model(d_model)
                .with_n_heads(n_heads)
                .with_n_encoder_layers(layers)
                .with_n_decoder_layers(layers)
                .with_d_ff(d_ff)
                .with_dropout(0.0)
                .with_norm_placement(NormPlacement::Pre),
            optimization: OptimizationConfig {
                steps: 1000,
                epochs: None,
                batch_size: 64,
                accumulate: 1,
                optimizer: OptimizerConfig::default(),
                schedule: linear(1.5, 100),
                label_smoothing: 0.0,
                ema: None,
            },
            evaluation: EvaluationConfig {
                validation_size: 500,
                test_size: 1000,
                ..EvaluationConfig::default()
            },
            checkpointing: CheckpointingConfig::default(),
            execution: ExecutionConfig::default(),
        }
    }
}

fn linear(factor: f64, warmup: usize) -> Schedule {
    Schedule {
        kind: ScheduleKind::Linear,
        factor,
        warmup,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_makes_a_run() {
        for name in ["copy", "reverse", "sort", "add", "annotated-copy"] {
            let mut config = RunConfig::of_task(name).unwrap();
            assert_eq!(config.data.name(), name);
            config.check().unwrap();
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
        }
        assert_eq!(RunConfig::of_task("text").unwrap().data.name(), "text");
        assert!(RunConfig::of_task("custom").is_none());
    }
}
