//! The settings and the state of an update.

use burn::tensor::Tensor;

/// Settings of one update of Adam (Kingma and Ba, 2015), or AdamW with decoupled weight decay (Loshchilov and
/// Hutter, 2019).
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// Learning rate `η`.
    pub learning_rate: f64,
    /// Decay of the first moment, `β1`.
    pub beta_1: f32,
    /// Decay of the second moment, `β2`.
    pub beta_2: f32,
    /// Added to the square root of the second moment, `ε`.
    pub epsilon: f32,
    /// Weight decay `λ`, which the update multiplies by the learning rate; 0 for Adam.
    pub weight_decay: f32,
    /// Number of this update, `t`, from 1.
    pub time: usize,
}

impl Adam {
    /// Returns the corrections of the moments' bias: `η / (1 - β1^t)` and `1 / sqrt(1 - β2^t)`.
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
    /// Moving average of the gradients, `m`.
    pub moment_1: Tensor<1>,
    /// Moving average of the squared gradients, `v`.
    pub moment_2: Tensor<1>,
}

impl AdamState {
    /// Panics unless all tensors have the gradient's size.
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
