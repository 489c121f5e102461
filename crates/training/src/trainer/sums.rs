//! Sums over the parameters of a model, and over the processes of a group.

use burn::tensor::{DType, Tensor};

use crate::collective::Collective;

/// Sum of tensors, which stays on the device; `None` before the first tensor is added.
#[derive(Default)]
pub(super) struct Sum(pub(super) Option<Tensor<1>>);

impl Sum {
    pub(super) fn add(&mut self, x: Tensor<1>) {
        self.0 = Some(match self.0.take() {
            Some(sum) => sum + x,
            None => x,
        });
    }

    pub(super) fn total(self) -> Tensor<1> {
        self.0.expect("a model has parameters, a step has a batch")
    }
}

/// Sums of squares of gradients, of which a process has only its parts.
#[derive(Default)]
pub struct Squares {
    /// Sum over the gradients that each process has.
    whole: Sum,
    /// Sum over this process's parts of divided gradients.
    parts: Sum,
}

impl Squares {
    /// Adds the sum of squares `[1]` of a gradient or, if `is_part`, of a part of a gradient.
    pub(super) fn add(&mut self, squares: Tensor<1>, is_part: bool) {
        match is_part {
            true => self.parts.add(squares),
            false => self.whole.add(squares),
        }
    }

    /// Returns the global norm of the gradients, `[1]`. All processes must call this function.
    ///
    /// # Panics
    ///
    /// If nothing was added.
    pub(super) fn norm(mut self, group: &dyn Collective) -> Tensor<1> {
        if let Some(parts) = self.parts.0 {
            let device = parts.device();
            let mut sum = [parts.into_scalar::<f32>()];
            group.sum(&mut sum);
            self.whole
                .add(Tensor::from_data(sum, (&device, DType::F32)));
        }
        self.whole.total().sqrt()
    }
}
