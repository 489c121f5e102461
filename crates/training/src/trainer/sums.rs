//! Sums over the parameters of a model, and over the processes of a group.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor};

use super::division::Division;
use crate::collective::Collective;

/// Returns the sum of tensors, `[1]`, which stays on the device; `None` without any tensor.
pub(super) fn sum(tensors: Vec<Tensor<1>>) -> Option<Tensor<1>> {
    tensors.into_iter().reduce(|sum, tensor| sum + tensor)
}

/// Sums of squares of gradients. Of the gradient of a divided parameter, a process has only its
/// part.
#[derive(Default)]
pub struct Squares {
    /// Those of the gradients that every process has as a whole.
    whole: Vec<Tensor<1>>,
    /// Those of this process's parts of divided gradients.
    parts: Vec<Tensor<1>>,
}

impl Squares {
    /// Returns the sums of squares of the gradients of all parameters. Of divided parameters, only
    /// this process's parts count.
    pub fn of<M: Module>(module: &M, gradients: &GradientsParams, division: Division) -> Self {
        struct Visitor<'a> {
            gradients: &'a GradientsParams,
            division: Division,
            squares: Squares,
        }
        impl ModuleVisitor for Visitor<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let Some(gradient) = self.gradients.get::<D>(param.id) else {
                    return;
                };
                let count = gradient.shape().num_elements();
                let is_part = self.division.divides(count);
                let squares = if is_part {
                    let part = self.division.part(count);
                    fused::sum_of_squares(&gradient.reshape([count]).slice([part]))
                } else {
                    fused::sum_of_squares(&gradient)
                };
                self.squares.add(squares, is_part);
            }
        }
        let mut visitor = Visitor {
            gradients,
            division,
            squares: Self::default(),
        };
        module.visit(&mut visitor);
        visitor.squares
    }

    /// Adds the sum of squares `[1]` of a gradient or, if `is_part`, of a part of a gradient.
    pub(super) fn add(&mut self, squares: Tensor<1>, is_part: bool) {
        if is_part {
            self.parts.push(squares)
        } else {
            self.whole.push(squares)
        }
    }

    /// Returns the global norm of the gradients, `[1]`. All processes must call this function.
    ///
    /// # Panics
    ///
    /// If nothing was added.
    pub fn norm(mut self, group: &dyn Collective) -> Tensor<1> {
        if let Some(parts) = sum(self.parts) {
            let device = parts.device();
            let mut parts = [parts.into_scalar::<f32>()];
            group.sum(&mut parts);
            let parts = Tensor::from_data(parts, (&device, DType::F32));
            self.whole.push(parts);
        }
        let whole = sum(self.whole);
        whole.expect("a model has parameters").sqrt()
    }
}
