//! Adam and AdamW over a whole model, with global-norm clipping.
//!
//! The rule for a single tensor is [`fused::Adam`]. The moments are kept here, by parameter name, so
//! that a checkpoint holds them in a fixed order and they come back on the device where they were.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use fused::{Adam, AdamState};
use serde::{Deserialize, Serialize};
use transformer::weights::{MapNamed, Parameters, WeightsError, map_named};

use crate::error::UsageError;

/// Which optimiser, and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Which rule.
    pub kind: OptimizerKind,
    /// Decay of the first moment.
    pub beta_1: f32,
    /// Decay of the second moment.
    pub beta_2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// AdamW's decoupled decay, times the learning rate; biases and norms have none.
    pub weight_decay: f32,
    /// Longest gradient, over all parameters together; a longer one is scaled down to it.
    pub clip_norm: Option<f32>,
}

/// Rule of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// The paper's, section 5.3
    Adam,
    /// With decoupled weight decay
    #[value(name = "adamw")]
    AdamW,
}

impl Default for OptimizerConfig {
    /// The paper's Adam, section 5.3.
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Adam,
            beta_1: 0.9,
            beta_2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.01,
            clip_norm: None,
        }
    }
}

impl OptimizerConfig {
    /// Refuses settings that cannot be.
    ///
    /// # Errors
    ///
    /// The first of them.
    pub fn check(&self) -> Result<(), UsageError> {
        let share = "must be at least 0 and less than 1";
        for (flag, value) in [("--beta-1", self.beta_1), ("--beta-2", self.beta_2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(UsageError::new(flag, value, share));
            }
        }
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            let expected = "must be a positive number";
            return Err(UsageError::new("--epsilon", self.epsilon, expected));
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            let expected = "must be 0 or a positive number";
            return Err(UsageError::new(
                "--weight-decay",
                self.weight_decay,
                expected,
            ));
        }
        if let Some(norm) = self.clip_norm
            && !(norm > 0.0 && norm.is_finite())
        {
            let expected = "must be a positive number";
            return Err(UsageError::new("--clip-norm", norm, expected));
        }
        Ok(())
    }
}

/// An optimiser and its moments.
#[derive(Clone)]
pub struct Optimizer {
    config: OptimizerConfig,
    /// By parameter name.
    moments: BTreeMap<String, Moments>,
}

/// Of one parameter, as one long row each, after `time` updates.
#[derive(Clone)]
struct Moments {
    time: usize,
    first: Tensor<1>,
    second: Tensor<1>,
}

impl Optimizer {
    /// With moments of zero.
    pub fn new(config: &OptimizerConfig) -> Self {
        Self {
            config: *config,
            moments: BTreeMap::new(),
        }
    }

    /// One update of all parameters, and the gradient's length. The loss was multiplied by
    /// `loss_scale`; `norm` is the length of `gradients` divided by it, if it is known already. Where
    /// nothing depends on it, it is found in the same pass.
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
                Some(longest) => (norm.clone() + 1e-6)
                    .recip()
                    .mul_scalar(longest)
                    .clamp_max(1.0),
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
        (module, known.unwrap_or_else(|| update.squares.root()))
    }

    /// The moments as `moment_1.NAME` and `moment_2.NAME`, `[n]` each.
    pub fn state(&self) -> Parameters {
        let both = |(name, moments): (&String, &Moments)| {
            [("moment_1", &moments.first), ("moment_2", &moments.second)]
                .map(|(moment, tensor)| (format!("{moment}.{name}"), tensor.to_data()))
        };
        self.moments.iter().flat_map(both).collect()
    }

    /// Goes on from these moments, after `steps` steps. `shapes` are those of the
    /// model's parameters.
    ///
    /// # Errors
    ///
    /// If the moments are not those of these parameters.
    pub fn load_state(
        &mut self,
        mut state: Parameters,
        steps: usize,
        shapes: &BTreeMap<String, Vec<usize>>,
        device: &Device,
    ) -> Result<(), WeightsError> {
        let device = device.clone().without_autodiff();
        let mut take = |name: String, size: usize| -> Result<Tensor<1>, WeightsError> {
            let data: TensorData = state.remove(&name).ok_or_else(|| WeightsError::Missing {
                name: name.clone(),
                others: 0,
            })?;
            if data.shape().as_slice() != [size] {
                return Err(WeightsError::Shape {
                    name,
                    expected: vec![size],
                    found: data.shape().to_vec(),
                });
            }
            Ok(Tensor::from_data(data, (&device, DType::F32)))
        };
        let mut moments = BTreeMap::new();
        for (name, shape) in shapes {
            let size = shape.iter().product();
            let of_parameter = Moments {
                time: steps,
                first: take(format!("moment_1.{name}"), size)?,
                second: take(format!("moment_2.{name}"), size)?,
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

/// Length of the gradient over all parameters together, `[1]`.
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
    squares.sum.root()
}

/// Of numbers on a device.
#[derive(Default)]
struct Sum(Option<Tensor<1>>);

impl Sum {
    fn add(&mut self, x: Tensor<1>) {
        self.0 = Some(match self.0.take() {
            Some(sum) => sum + x,
            None => x,
        });
    }

    fn root(self) -> Tensor<1> {
        self.0.expect("a model has parameters").sqrt()
    }
}

struct Update<'a> {
    optimizer: &'a mut Optimizer,
    learning_rate: f64,
    gradients: GradientsParams,
    /// What gradients are multiplied by; without it they are measured.
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
    /// One parameter, by name and rank, as one long row.
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
            // Biases and norms are the parameters of rank 1.
            weight_decay: match config.kind {
                OptimizerKind::AdamW if rank > 1 => config.weight_decay,
                _ => 0.0,
            },
            time,
        };
        let moving = AdamState {
            parameter,
            moment_1: before.first,
            moment_2: before.second,
        };
        let AdamState {
            parameter,
            moment_1: first,
            moment_2: second,
        } = match &self.scale {
            Some(scale) => adam.step(moving, gradient, Some(scale)),
            None => {
                let (moving, squares) = adam.step_measured(moving, gradient);
                self.squares.add(squares);
                moving
            }
        };
        let after = Moments {
            time,
            first,
            second,
        };
        moments.insert(name, after);
        parameter
    }
}

#[cfg(test)]
mod tests;
