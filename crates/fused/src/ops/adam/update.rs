//! The settings and the state of an Adam update.

use std::ops::Range;

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

/// A parameter and its moments, without autodiff.
///
/// The moments may be those of a part of the parameter. Updates then change only this part, as when
/// several processes each update a part of the elements.
#[derive(Clone, Debug)]
pub struct AdamState {
    /// The parameter, `w`, `[N]`.
    pub parameter: Tensor<1>,
    /// Range of the parameter's elements that are updated; `0..N` for all of them. Its length is
    /// `P`.
    pub part: Range<usize>,
    /// First moment `m` of the elements `part`, `[P]`: the moving average of their gradients.
    pub moment_1: Tensor<1>,
    /// Second moment `v` of the elements `part`, `[P]`: the moving average of their squared
    /// gradients.
    pub moment_2: Tensor<1>,
}

impl AdamState {
    /// Returns the state of a parameter `[N]` before its first update, with moments of zero.
    ///
    /// # Panics
    ///
    /// If `part` is not within `0..N`.
    pub fn new(parameter: Tensor<1>, part: Range<usize>) -> Self {
        let [n] = parameter.dims();
        assert!(
            part.start <= part.end && part.end <= n,
            "the parameter is [{n}], which has no elements {part:?}"
        );
        let options = (&parameter.device(), parameter.dtype());
        let zeros = || Tensor::zeros([part.len()], options);
        Self {
            moment_1: zeros(),
            moment_2: zeros(),
            parameter,
            part,
        }
    }

    /// Returns whether all elements of the parameter are updated.
    pub(super) fn is_whole(&self) -> bool {
        self.part == (0..self.parameter.dims()[0])
    }

    /// Panics unless the parameter has the gradient's size, and the moments have that of the part.
    pub(super) fn check(&self, gradient: &Tensor<1>) {
        let [n] = gradient.dims();
        let parameter = self.parameter.dims();
        assert!(
            parameter == [n],
            "the gradient is [{n}], but the parameter is {parameter:?}"
        );
        let (part, moments) = (&self.part, [self.moment_1.dims(), self.moment_2.dims()]);
        assert!(
            part.start <= part.end && part.end <= n && moments == [[part.len()]; 2],
            "the parameter is [{n}], but the moments are {moments:?} for its elements {part:?}"
        );
    }
}
