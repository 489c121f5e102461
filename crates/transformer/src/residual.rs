//! Residual connection and layer normalisation around a sublayer (paper, section 3.1), once for
//! all layers and both placements.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::Tensor;

use crate::config::{NormPlacement, TransformerConfig};
use crate::dropout::probability;
use crate::init::Init;
use crate::norm::LayerNorm;

/// `norm(x + dropout(sublayer(x)))`, or with the norm in front `x + dropout(sublayer(norm(x)))`.
#[derive(Module, Debug)]
pub struct Residual {
    /// The layer norm.
    pub norm: LayerNorm,
    /// On the sublayer's output.
    pub dropout: Dropout,
    #[module(skip)]
    placement: NormPlacement,
}

impl Residual {
    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            norm: init.layer_norm(config),
            dropout: DropoutConfig::new(config.dropout).init(),
            placement: config.norm_placement,
        }
    }

    /// Runs a sublayer inside the block.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        sublayer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        self.run(x.into(), sublayer).sum()
    }

    pub(crate) fn run(
        &self,
        stream: Stream,
        sublayer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Stream {
        let dropout = probability(&self.dropout);
        match self.placement {
            NormPlacement::Post => {
                let x = stream.sum();
                let y = sublayer(x.clone());
                let stream = Stream {
                    x,
                    branch: Some((y, dropout)),
                };
                stream.norm(&self.norm).into()
            }
            NormPlacement::Pre => {
                let (x, normalized) = stream.sum_and_norm(&self.norm);
                Stream {
                    x,
                    branch: Some((sublayer(normalized), dropout)),
                }
            }
        }
    }
}

/// What one block hands to the next: `x`, to which a sublayer's output may still have to be added,
/// so that the sum and its norm are one operation.
#[derive(Debug)]
pub(crate) struct Stream {
    /// `[B, T, D]`.
    x: Tensor<3>,
    /// `[B, T, D]`, and how much of it is dropped.
    branch: Option<(Tensor<3>, f64)>,
}

impl From<Tensor<3>> for Stream {
    fn from(x: Tensor<3>) -> Self {
        Self { x, branch: None }
    }
}

impl Stream {
    /// `x + dropout(y)`.
    pub fn sum(self) -> Tensor<3> {
        let shape = self.x.dims();
        match self.branch {
            Some((y, dropout)) => fused::residual(rows(self.x), rows(y), dropout).reshape(shape),
            None => self.x,
        }
    }

    /// The sum's norm.
    pub fn norm(self, norm: &LayerNorm) -> Tensor<3> {
        let shape = self.x.dims();
        match self.branch {
            Some((y, dropout)) => norm
                .forward_residual(rows(self.x), rows(y), dropout)
                .reshape(shape),
            None => norm.forward(self.x),
        }
    }

    /// The sum, and its norm.
    fn sum_and_norm(self, norm: &LayerNorm) -> (Tensor<3>, Tensor<3>) {
        let shape = self.x.dims();
        match self.branch {
            Some((y, dropout)) => {
                let (sum, norm) = norm.forward_both(rows(self.x), rows(y), dropout);
                (sum.reshape(shape), norm.reshape(shape))
            }
            None => (self.x.clone(), norm.forward(self.x)),
        }
    }
}

/// `[B, T, D]` to `[B T, D]`.
fn rows(x: Tensor<3>) -> Tensor<2> {
    x.flatten(0, 1)
}
