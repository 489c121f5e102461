//! Definitions of synthetic tasks: their names, default settings and recipes for training.

use transformer::Positions;

use crate::data::dataset::Dataset;
use crate::error::UsageError;
use crate::schedule::Schedule;

/// Definition of a synthetic task with settings of type `C`: its name, how to create it, and a
/// recipe to train on it. [`DataConfig`](crate::data::DataConfig) lists all synthetic tasks.
pub struct TaskEntry<C> {
    /// Name in `config.json` and on the command line, in kebab case.
    pub name: &'static str,
    /// One-line description of the task, such as "The target is the source".
    pub summary: &'static str,
    /// Returns the default settings.
    pub settings: fn() -> C,
    /// Creates the task from its settings.
    pub create: fn(&C) -> Result<Box<dyn Dataset>, UsageError>,
    /// Model and training settings that solve the task.
    pub recipe: Recipe,
}

/// Model and training settings that solve a synthetic task on two CPU cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Width of the model.
    pub d_model: usize,
    /// Number of attention heads.
    pub n_heads: usize,
    /// Number of encoder layers, and also of decoder layers.
    pub n_layers: usize,
    /// Inner width of the feed-forward networks.
    pub d_ff: usize,
    /// Dropout probability.
    pub dropout: f64,
    /// Positional encoding.
    pub positions: Positions,
    /// Number of training steps.
    pub steps: usize,
    /// Number of sequences in a batch.
    pub batch_size: usize,
    /// Schedule of the learning rate.
    pub schedule: Schedule,
    /// Number of steps between evaluations; `None` for 100 steps.
    pub eval_every: Option<usize>,
    /// Number of validation sequences in an evaluation.
    pub validation_size: usize,
}

impl Recipe {
    /// Settings that solve the copy task.
    pub const COPY: Self = Self {
        d_model: 64,
        n_heads: 2,
        n_layers: 1,
        d_ff: 256,
        dropout: 0.0,
        positions: Positions::Sinusoidal,
        steps: 1000,
        batch_size: 64,
        schedule: Schedule::linear(1.5, 100),
        eval_every: None,
        validation_size: 500,
    };

    /// Settings with learned positional encodings, for tasks other than copying. A model learns
    /// sooner to tell learned positions apart than sinusoidal ones. Rotary positions alone cannot
    /// distinguish `7` from `7 7`, because attention over any number of equal values returns that
    /// value.
    pub const LEARNED_POSITIONS: Self = Self {
        n_heads: 4,
        positions: Positions::Learned,
        schedule: Schedule::linear(1.0, 100),
        ..Self::COPY
    };

    /// Settings of the copy task in the Annotated Transformer, edition of 2018. Training has 10
    /// epochs of 20 batches with 30 sequences each. After each epoch, 5 batches are evaluated.
    pub const ANNOTATED: Self = Self {
        d_model: 512,
        n_heads: 8,
        n_layers: 2,
        d_ff: 2048,
        dropout: 0.1,
        steps: 200,
        batch_size: 30,
        schedule: Schedule::noam(1.0, 400),
        eval_every: Some(20),
        validation_size: 150,
        ..Self::COPY
    };
}
