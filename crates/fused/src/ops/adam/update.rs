//! The settings and the state of an Adam update.

use burn::tensor::Tensor;

/// Settings of one update by Adam (Kingma and Ba, 2015), or by AdamW with decoupled weight decay
/// (Loshchilov and Hutter, 2019).
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// Learning rate `η`.
    pub learning_rate: f64,
    /// Decay rate of the first moment, `β1`.
    pub beta_1: f32,
    /// Decay rate of the second moment, `β2`.
    pub beta_2: f32,
    /// `ε`, which is added to the square root of the bias-corrected second moment.
    pub epsilon: f32,
    /// Weight decay `λ`, which the update multiplies by the learning rate; 0 for Adam.
    pub weight_decay: f32,
    /// Number of this update, `t`, counted from 1.
    pub time: usize,
}

impl Adam {
    /// Returns the factors that correct the bias of the moments: `η / (1 - β1^t)` and
    /// `1 / sqrt(1 - β2^t)`.
    pub(super) fn corrections(&self) -> [f64; 2] {
        let power = |beta: f32| f64::from(beta).powf(self.time as f64);
        [
            self.learning_rate / (1.0 - power(self.beta_1)),
            1.0 / (1.0 - power(self.beta_2)).sqrt(),
        ]
    }
}

/// A parameter and its moments, each `[N]`, without autodiff.
#[derive(Clone, Debug)]
pub struct AdamState {
    /// The parameter, `w`.
    pub parameter: Tensor<1>,
    /// First moment `m`, the moving average of the gradients.
    pub moment_1: Tensor<1>,
    /// Second moment `v`, the moving average of the squared gradients.
    pub moment_2: Tensor<1>,
}

impl AdamState {
    /// Panics unless the parameter and its moments have the gradient's size.
    pub(super) fn check(&self, gradient: &Tensor<1>) {
        let sizes = [
            self.parameter.dims(),
            self.moment_1.dims(),
            self.moment_2.dims(),
        ];
        assert!(
            sizes.iter().all(|size| *size == gradient.dims()),
            "the gradient is {:?}, but parameter and moments are {sizes:?}",
            gradient.dims()
        );
    }
}
