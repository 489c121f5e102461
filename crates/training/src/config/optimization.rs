//! Settings of the parameter updates: the section `optimization` of a run's configuration.

use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;
use crate::setting::{
    MANY, Tasks, choice, choices, fraction, group, number, positive, settings, whole,
};

settings! {
    /// Settings of the parameter updates.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct OptimizationConfig in "optimization." {
        /// Training steps; with epochs, they follow from these.
        steps: usize = 1000, whole(1, MANY).flag("--steps", "N").replaced_by(Self::epochs).may_change();
        /// Passes over the training data (text only), instead of steps.
        epochs: Option<usize> = None, whole(1, 1_000_000).flag("--epochs", "N").of(Tasks::Text("use --steps")).may_change();
        /// Sequences in a batch (not for text).
        batch_size: usize = 64, whole(1, MANY).flag("--batch-size", "N").of(Tasks::Synthetic("use --batch-tokens"));
        /// Batches in a step, whose gradients are added up; the last step of an epoch has those left.
        accumulate: usize = 1, whole(1, 100_000).rare_flag("--accumulate", "N");
        /// Optimizer and its settings.
        optimizer: OptimizerConfig = OptimizerConfig::DEFAULT, group::<OptimizerConfig>();
        /// Schedule of the learning rate.
        schedule: Schedule = Schedule::DEFAULT, group::<Schedule>();
        /// Share of the target distribution that is spread over all tokens (Vaswani et al. 2017,
        /// section 5.4).
        label_smoothing: f64 = 0.0, fraction().flag("--label-smoothing", "P");
        /// Decay of a moving average of the parameters, which is evaluated and saved; at first it is
        /// (1 + STEP) / (10 + STEP), if that is smaller.
        ema: Option<f64> = None, number("above 0 and less than 1", |x| x > 0.0 && x < 1.0).rare_flag("--ema", "DECAY");
        /// Settings of LoRA; `None` to train all parameters.
        lora: Option<LoraConfig> = None, group::<LoraConfig>();
    }
}

settings! {
    /// Settings of LoRA (Hu et al. 2022): a matrix `W` of a linear layer becomes
    /// `W + alpha / rank * A B`, and only `A` and `B` are trained.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    pub struct LoraConfig in "optimization.lora." {
        /// LoRA rank: train only low-rank matrices, which are merged into the weights at the end.
        ///
        /// The rank is the number of columns of `A` and of rows of `B`.
        rank: usize = 0, whole(1, 65_536).rare_flag("--lora-rank", "N");
        /// Scale of LoRA's products, which are multiplied by ALPHA / rank; without it, twice the
        /// rank.
        alpha: Option<f64> = None, positive().rare_flag("--lora-alpha", "ALPHA").needs(Self::rank, "");
    }
}

impl LoraConfig {
    /// Returns `alpha`, or twice the rank if it is `None`.
    pub fn scale(&self) -> f64 {
        self.alpha.unwrap_or(2.0 * self.rank as f64)
    }
}

choices! {
    /// Algorithm that updates the parameters.
    pub enum OptimizerKind {
        /// Adam, as in the paper.
        Adam = "adam",
        /// Adam with decoupled weight decay.
        AdamW = "adamw",
    }
}

settings! {
    /// Optimizer and its settings. The betas and the epsilon are those of Vaswani et al. 2017,
    /// section 5.3.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    pub struct OptimizerConfig in "optimization.optimizer." {
        /// Optimizer.
        kind: OptimizerKind = OptimizerKind::Adam, choice(OptimizerKind::choices).flag("--optimizer", "RULE");
        /// Decay of the first moment of Adam.
        beta_1: f32 = 0.9, fraction();
        /// Decay of the second moment of Adam.
        beta_2: f32 = 0.98, fraction();
        /// Small number that is added to the square root of the second moment.
        epsilon: f32 = 1e-9, positive();
        /// Weight decay of AdamW, which multiplies it by the learning rate; biases and norms have
        /// none.
        weight_decay: f32 = 0.01, number("0 or a positive number", |x| x >= 0.0).rare_flag("--weight-decay", "DECAY").needs(Self::kind, "adamw");
        /// Maximum global gradient norm, to which larger gradients are scaled.
        clip_norm: Option<f32> = None, positive().flag("--clip-norm", "NORM");
    }
}
