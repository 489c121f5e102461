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
        let [batch, length, d_model] = x.dims();
        let rows = |x: Tensor<3>| x.reshape([batch * length, d_model]);
        let dropout = probability(&self.dropout);
        let y = match self.placement {
            NormPlacement::Post => {
                let y = sublayer(x.clone());
                self.norm.forward_residual(rows(x), rows(y), dropout)
            }
            NormPlacement::Pre => {
                let y = sublayer(self.norm.forward(x.clone()));
                fused::residual(rows(x), rows(y), dropout)
            }
        };
        y.reshape([batch, length, d_model])
    }
}
