//! Adam (Vaswani et al. 2017, section 5.3) and AdamW for the trained parameters of a model, with
//! clipping of the global gradient norm.
//!
//! [`fused::Adam`] updates a single tensor. The moments are kept here by parameter name, so that a
//! checkpoint holds them in a fixed order.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use fused::{Adam, AdamState};
use transformer::weights::{
    MapNamed, Parameters, VisitNamed, WeightsError, map_named, visit_named,
};

use super::restore::take;
use crate::config::{OptimizerConfig, OptimizerKind};

/// Adam or AdamW, with the moments of the parameters that it has updated.
#[derive(Clone)]
pub struct Optimizer {
    config: OptimizerConfig,
    /// Moments of each parameter, by parameter name.
    moments: BTreeMap<String, Moments>,
}

/// First and second moment of one parameter after `time` updates. Both are flattened to `[n]`,
/// where `n` is the number of elements of the parameter.
#[derive(Clone)]
struct Moments {
    time: usize,
    first: Tensor<1>,
    second: Tensor<1>,
}

impl Optimizer {
    /// Creates an optimizer with moments of zero.
    pub fn new(config: &OptimizerConfig) -> Self {
        Self {
            config: *config,
            moments: BTreeMap::new(),
        }
    }

    /// Updates all parameters that have a gradient, and returns the global gradient norm before
    /// clipping, `[1]`.
    ///
    /// `gradients` are the gradients of a loss that was multiplied by `loss_scale`. `norm` is their
    /// global norm divided by `loss_scale`, if the caller has computed it. Without clipping, and
    /// with a `loss_scale` of 1, `norm` is ignored: the update computes the norm in the same pass.
    ///
    /// # Panics
    ///
    /// If no parameter has a gradient, unless `norm` is given and not ignored.
    pub fn step<M: Module>(
        &mut self,
        learning_rate: f64,
        module: M,
        gradients: GradientsParams,
        norm: Option<Tensor<1>>,
        loss_scale: f64,
    ) -> (M, Tensor<1>) {
        let needed = self.config.clip_norm.is_some() || loss_scale != 1.0;
        let norm_now = || gradient_norm(&module, &gradients) / loss_scale;
        let known = needed.then(|| norm.unwrap_or_else(norm_now));
        let scale = known.as_ref().map(|norm| {
            let kept = match self.config.clip_norm {
                Some(longest) => ((norm.clone() + 1e-6).recip() * longest).clamp_max(1.0),
                None => norm.ones_like(),
            };
            kept / loss_scale
        });
        let mut update = Update {
            optimizer: self,
            learning_rate,
            gradients,
            scale,
            squares: Sum::default(),
        };
        let module = map_named(module, &mut update);
        (
            module,
            known.unwrap_or_else(|| update.squares.total().sqrt()),
        )
    }

    /// Returns the moments of all parameters that were updated, flattened to `[n]`. The moments of
    /// the parameter `NAME` have the names `moment_1.NAME` and `moment_2.NAME`.
    pub fn state(&self) -> Parameters {
        let both = |(name, moments): (&String, &Moments)| {
            [("moment_1", &moments.first), ("moment_2", &moments.second)]
                .map(|(moment, tensor)| (format!("{moment}.{name}"), tensor.to_data()))
        };
        self.moments.iter().flat_map(both).collect()
    }

    /// Replaces the moments by `state`, which a checkpoint holds after `steps` updates. `shapes`
    /// has the shape of each trained parameter of the model by its name. A parameter that never had
    /// a gradient has no moments.
    ///
    /// # Errors
    ///
    /// If one of the two moments of a parameter is missing, or a moment is unknown or of the wrong
    /// size.
    pub fn load_state(
        &mut self,
        mut state: Parameters,
        steps: usize,
        shapes: &BTreeMap<String, Vec<usize>>,
        device: &Device,
    ) -> Result<(), WeightsError> {
        let mut moments = BTreeMap::new();
        for (name, shape) in shapes {
            let names = [1, 2].map(|number| format!("moment_{number}.{name}"));
            if names.iter().all(|name| !state.contains_key(name)) {
                continue;
            }
            let size = [shape.iter().product()];
            let [first, second] = names.map(|name| take(&mut state, name, &size, device));
            let of_parameter = Moments {
                time: steps,
                first: first?,
                second: second?,
            };
            moments.insert(name.clone(), of_parameter);
        }
        if let Some(name) = state.keys().next().cloned() {
            let others = state.len() - 1;
            return Err(WeightsError::Unused { name, others });
        }
        self.moments = moments;
        Ok(())
    }
}

pub(super) fn trained_shapes<M: Module>(module: &M) -> BTreeMap<String, Vec<usize>> {
    struct Shapes(BTreeMap<String, Vec<usize>>);
    impl VisitNamed for Shapes {
        fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
            if param.is_require_grad() {
                self.0.insert(name, param.shape().to_vec());
            }
        }
    }
    let mut shapes = Shapes(BTreeMap::new());
    visit_named(module, &mut shapes);
    shapes.0
}

/// Returns the norm of the gradients of all parameters together, `[1]`.
pub(crate) fn gradient_norm<M: Module>(module: &M, gradients: &GradientsParams) -> Tensor<1> {
    struct Squares<'a> {
        gradients: &'a GradientsParams,
        sum: Sum,
    }
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.gradients.get::<D>(param.id) {
                self.sum.add(fused::sum_of_squares(&gradient));
            }
        }
    }
    let mut squares = Squares {
        gradients,
        sum: Sum::default(),
    };
    module.visit(&mut squares);
    squares.sum.total().sqrt()
}

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

struct Update<'a> {
    optimizer: &'a mut Optimizer,
    learning_rate: f64,
    gradients: GradientsParams,
    /// Factor that the gradients are multiplied by, `[1]`. If it is `None`, the gradients are not
    /// scaled, and the update adds the sum of their squares to `squares`.
    scale: Option<Tensor<1>>,
    squares: Sum,
}

impl MapNamed for Update<'_> {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return param;
        };
        param.map(|tensor| {
            let is_trained = tensor.is_require_grad();
            let strategy = tensor.gradient_checkpointing_strategy();
            let tensor = tensor.inner();
            let shape = tensor.shape();
            let size = shape.num_elements();
            let updated = self.update((name, D), tensor.reshape([size]), gradient.reshape([size]));
            let mut updated = Tensor::from_inner(updated.reshape(shape));
            if let Some(strategy) = strategy {
                updated = updated.with_gradient_checkpointing_strategy(strategy);
            }
            updated.set_require_grad(is_trained)
        })
    }
}

impl Update<'_> {
    /// Updates one parameter by its gradient and returns it. The parameter and the gradient are
    /// flattened to `[n]`. `rank` is the rank of the parameter before it was flattened.
    fn update(
        &mut self,
        (name, rank): (String, usize),
        parameter: Tensor<1>,
        gradient: Tensor<1>,
    ) -> Tensor<1> {
        let Optimizer { config, moments } = &mut *self.optimizer;
        let before = moments.remove(&name).unwrap_or_else(|| Moments {
            time: 0,
            first: parameter.zeros_like(),
            second: parameter.zeros_like(),
        });
        let time = before.time + 1;
        let adam = Adam {
            learning_rate: self.learning_rate,
            beta_1: config.beta_1,
            beta_2: config.beta_2,
            epsilon: config.epsilon,
            // Weight decay excludes parameters of rank 1. In a `Transformer`, these are the biases
            // and the parameters of norms.
            weight_decay: match config.kind {
                OptimizerKind::AdamW if rank > 1 => config.weight_decay,
                _ => 0.0,
            },
            time,
        };
        let state = AdamState {
            parameter,
            moment_1: before.first,
            moment_2: before.second,
        };
        let state = match &self.scale {
            Some(scale) => adam.step(state, gradient, Some(scale)),
            None => {
                let (state, squares) = adam.step_measured(state, gradient);
                self.squares.add(squares);
                state
            }
        };
        let after = Moments {
            time,
            first: state.moment_1,
            second: state.moment_2,
        };
        moments.insert(name, after);
        state.parameter
    }
}

#[cfg(test)]
mod tests;
