//! The residual block: residual connection and layer normalisation around a sublayer (paper,
//! section 3.1).

use burn::module::Module;
use burn::nn::Dropout;
use burn::tensor::{Device, Tensor};

use crate::config::{LayerConfig, NormPlacement};
use crate::dropout::{layer, probability};
use crate::linear::rows;
use crate::norm::LayerNorm;

/// A residual block: a residual connection and a layer norm around a sublayer.
///
/// A post-norm block computes `norm(x + dropout(sublayer(x)))`. A pre-norm block computes
/// `x + dropout(sublayer(norm(x)))`.
#[derive(Module, Debug)]
pub struct Residual {
    /// Layer norm of the block.
    pub norm: LayerNorm,
    /// Dropout of the sublayer's output.
    pub dropout: Dropout,
    #[module(skip)]
    placement: NormPlacement,
}

impl Residual {
    /// Creates a block with a norm, and a dropout probability of the sublayer's output.
    ///
    /// ```
    /// use burn::nn::LinearConfig;
    /// use burn::tensor::{Device, Distribution, Tensor};
    /// use transformer::residual::Residual;
    /// use transformer::{NormConfig, NormPlacement};
    ///
    /// // An adapter, as a sublayer of one's own.
    /// let device = Device::flex();
    /// let adapter = LinearConfig::new(32, 32).init(&device);
    /// let norm = NormConfig::new(32).init(&device)?;
    /// let block = Residual::new(norm, NormPlacement::Pre, 0.1);
    /// let x = Tensor::random([2, 5, 32], Distribution::Default, &device);
    /// assert_eq!(block.forward(x, |x| adapter.forward(x)).dims(), [2, 5, 32]);
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `dropout` is not in `[0, 1)`.
    pub fn new(norm: LayerNorm, placement: NormPlacement, dropout: f64) -> Self {
        Self {
            dropout: layer(dropout, &norm.gamma.device()),
            norm,
            placement,
        }
    }

    pub(crate) fn build(config: &LayerConfig, device: &Device) -> Self {
        let norm = LayerNorm::build(&config.norm, device);
        Self::new(norm, config.norm_placement, config.dropout)
    }

    /// Runs `sublayer` inside the block.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If `sublayer` changes the shape.
    pub fn forward(
        &self,
        x: Tensor<3>,
        sublayer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        self.run(x.into(), sublayer).sum()
    }

    /// Runs `sublayer` inside the block.
    ///
    /// A pre-norm block returns its output as a sum that has not been computed yet, so that the
    /// next layer norm can compute the sum and normalise it in one operation.
    pub(crate) fn run(
        &self,
        stream: Stream,
        sublayer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Stream {
        let dropout = probability(&self.dropout);
        let sublayer = |x: Tensor<3>| {
            let shape = x.dims();
            let y = sublayer(x);
            let found = y.dims();
            assert_eq!(
                found, shape,
                "x is {shape:?}, but the sublayer's output is {found:?}"
            );
            y
        };
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

/// The input of a block: either `x`, or a sum `x + dropout(y)` that has not been computed yet.
///
/// Deferring the sum lets one operation compute the sum and its layer norm.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The input `x`, or the first term of the sum, `[B, T, D]`.
    x: Tensor<3>,
    /// Second term `y` of the sum, `[B, T, D]`, and the dropout probability of `y`; `None` if the
    /// input is `x` alone.
    branch: Option<(Tensor<3>, f64)>,
}

impl From<Tensor<3>> for Stream {
    fn from(x: Tensor<3>) -> Self {
        Self { x, branch: None }
    }
}

impl Stream {
    /// Returns `x + dropout(y)`, or `x` if there is no `y`: `[B, T, D]`.
    pub fn sum(self) -> Tensor<3> {
        let shape = self.x.dims();
        match self.branch {
            Some((y, dropout)) => fused::residual(rows(self.x), rows(y), dropout).reshape(shape),
            None => self.x,
        }
    }

    /// Returns `x + dropout(y)`, or `x` if there is no `y`, normalised by `norm`: `[B, T, D]`.
    pub fn norm(self, norm: &LayerNorm) -> Tensor<3> {
        let shape = self.x.dims();
        match self.branch {
            Some((y, dropout)) => norm
                .forward_residual(rows(self.x), rows(y), dropout)
                .reshape(shape),
            None => norm.forward(self.x),
        }
    }

    /// Returns `x + dropout(y)`, or `x` if there is no `y`, and the same tensor normalised by
    /// `norm`. Both are `[B, T, D]`.
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
