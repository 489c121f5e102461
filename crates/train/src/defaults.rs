//! Settings that solve each task on two cores; the README says how well and how fast.

use transformer::Positions;

use crate::config::{RunConfig, TaskConfig};
use crate::optimizer::OptimizerConfig;
use crate::schedule::Schedule;
use crate::task::SequenceConfig;
use crate::text::TextConfig;

/// How large a model for text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSize {
    /// Some thousand sentences, to try something.
    Tiny,
    /// Some ten thousand sentences.
    Small,
    /// The paper's base model.
    Base,
}

// All three of the first have learned positions, which are told apart sooner than sines are. Rotary ones alone
// could not tell `7` from `7 7`: attention to equal values is that value, however many there are.
impl RunConfig {
    /// Reverse.
    pub fn reverse() -> Self {
        Self {
            task: TaskConfig::Reverse(SequenceConfig::default()),
            steps: 1000,
            ..Self::learned(1, 1.0, 100)
        }
    }

    /// Sort, half as many symbols. The last steps are for those that are there several times.
    pub fn sort() -> Self {
        Self {
            task: TaskConfig::Sort(SequenceConfig {
                symbols: 16,
                max_length: 12,
                ..SequenceConfig::default()
            }),
            steps: 3000,
            ..Self::learned(2, 1.0, 100)
        }
    }

    /// Addition of numbers of up to four digits. The last steps are for carries over several
    /// digits.
    pub fn add() -> Self {
        Self {
            task: TaskConfig::Add { max_digits: 4 },
            steps: 3000,
            ..Self::learned(2, 0.4, 200)
        }
    }

    /// Translation of texts, by a model of a size.
    pub fn text(size: TextSize) -> Self {
        let (d_model, n_heads, layers, d_ff) = match size {
            TextSize::Tiny => (128, 4, 2, 256),
            TextSize::Small => (256, 8, 3, 512),
            TextSize::Base => (512, 8, 6, 2048),
        };
        // With few sentences, small batches, so that there are steps enough to learn in.
        let (vocab_size, batch_tokens, warmup) = match size {
            TextSize::Tiny => (2000, 512, 200),
            TextSize::Small => (6000, 2048, 400),
            TextSize::Base => (16_000, 4096, 2000),
        };
        let copy = Self::copy();
        Self {
            task: TaskConfig::Text(Box::new(TextConfig::new(vocab_size, batch_tokens))),
            model: copy
                .model
                .with_d_model(d_model)
                .with_n_heads(n_heads)
                .with_n_encoder_layers(layers)
                .with_n_decoder_layers(layers)
                .with_d_ff(d_ff)
                .with_dropout(0.1),
            epochs: Some(10),
            optimizer: OptimizerConfig {
                clip_norm: Some(1.0),
                ..copy.optimizer
            },
            // A peak of 0.0022, 0.0011 and 0.0007.
            schedule: Schedule::Linear {
                factor: match size {
                    TextSize::Tiny | TextSize::Small => 0.35,
                    TextSize::Base => 0.7,
                },
                warmup,
            },
            label_smoothing: 0.1,
            eval_size: 2000,
            test_size: 2000,
            ..copy
        }
    }

    fn learned(layers: usize, factor: f64, warmup: usize) -> Self {
        let config = Self::copy();
        Self {
            model: config
                .model
                .with_n_heads(4)
                .with_n_encoder_layers(layers)
                .with_n_decoder_layers(layers)
                .with_positions(Positions::Learned),
            schedule: Schedule::Linear { factor, warmup },
            ..config
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_runs() {
        for mut config in [RunConfig::reverse(), RunConfig::sort(), RunConfig::add()] {
            config.resolve().unwrap();
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
        }
    }
}
