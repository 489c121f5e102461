//! Adam (Vaswani et al. 2017, section 5.3) and AdamW for the trained parameters of a model, with
//! clipping of the global gradient norm.
//!
//! [`fused::Adam`] updates a single tensor. The moments are kept here by parameter name, so that a
//! checkpoint holds them in a fixed order. Processes of a group divide the updates of large
//! parameters ([`Division`]).

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use fused::{Adam, AdamState};
use transformer::weights::{MapNamed, Parameters, WeightsError, map_named};

use super::division::Division;
use super::sums::Squares;
use crate::collective::Collective;
use crate::config::{OptimizerConfig, OptimizerKind};

/// Adam or AdamW, with the moments of the parameters that it has updated.
#[derive(Clone)]
pub struct Optimizer {
    config: OptimizerConfig,
    /// Moments of each parameter, by parameter name.
    moments: BTreeMap<String, Moments>,
}

/// First and second moment of one parameter, or of this process's part of it, after `time` updates.
/// Both are flattened to `[n]`.
#[derive(Clone)]
struct Moments {
    time: usize,
    /// Number of elements of the whole parameter.
    count: usize,
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

    /// Returns whether [`step`](Self::step) needs the global gradient norm before it updates: for
    /// clipping, or because the loss was multiplied by a loss scale.
    pub fn needs_norm(&self, loss_scale: f64) -> bool {
        self.config.clip_norm.is_some() || loss_scale != 1.0
    }

    /// Updates this process's parts of all parameters that have a gradient. Also returns the sums
    /// of squares of the gradients, unless `norm` is given.
    ///
    /// `gradients` are the gradients of a loss that was multiplied by `loss_scale`. `norm` is their
    /// global norm divided by `loss_scale`, `[1]`.
    ///
    /// # Panics
    ///
    /// If `norm` is `None`, but [needed](Self::needs_norm).
    pub fn step<M: Module>(
        &mut self,
        learning_rate: f64,
        module: M,
        gradients: GradientsParams,
        norm: Option<&Tensor<1>>,
        loss_scale: f64,
        division: Division,
    ) -> (M, Squares) {
        assert!(
            norm.is_some() || !self.needs_norm(loss_scale),
            "clipping and a loss scale of {loss_scale} need the gradient norm"
        );
        let scale = norm.map(|norm| {
            let kept = match self.config.clip_norm {
                Some(longest) => ((norm.clone() + 1e-6).recip() * longest).clamp_max(1.0),
                None => norm.ones_like(),
            };
            kept / loss_scale
        });
        let mut update = Update {
            optimizer: self,
            division,
            learning_rate,
            gradients,
            scale,
            squares: Squares::default(),
        };
        let module = map_named(module, &mut update);
        (module, update.squares)
    }

    /// Returns the moments of all parameters that were updated, flattened to `[n]`. The moments of
    /// the parameter `NAME` have the names `moment_1.NAME` and `moment_2.NAME`.
    ///
    /// All processes of a group must call this method, because each has the moments of its parts.
    /// Rank 0 alone gets the moments. `group` must be the group of the updates.
    pub fn state(&self, group: &dyn Collective) -> Parameters {
        let mut state = Parameters::new();
        for (name, moments) in &self.moments {
            for (number, moment) in [(1, &moments.first), (2, &moments.second)] {
                let is_whole = moment.dims() == [moments.count];
                if is_whole && !group.is_first() {
                    continue;
                }
                let mut data = moment.to_data();
                if !is_whole {
                    let own: &[f32] = data.as_slice().expect("moments are f32");
                    let mut all = vec![0.0; moments.count];
                    all[group.part(moments.count)].copy_from_slice(own);
                    group.share_parts(&mut all);
                    data = TensorData::new(all, [moments.count]);
                }
                if group.is_first() {
                    state.insert(format!("moment_{number}.{name}"), data);
                }
            }
        }
        state
    }

    /// Replaces the moments by `state`, which a checkpoint holds after `steps` updates.
    ///
    /// `shapes` has the shape of each parameter of the model by its name. A parameter that never had
    /// a gradient has no moments. Of divided parameters, the moments of this process's
    /// parts are kept.
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
        division: Division,
    ) -> Result<(), WeightsError> {
        let device = device.clone().without_autodiff();
        let mut moments = BTreeMap::new();
        for (name, shape) in shapes {
            let names = [1, 2].map(|number| format!("moment_{number}.{name}"));
            if names.iter().all(|name| !state.contains_key(name)) {
                continue;
            }
            let count = shape.iter().product();
            let part = division.part(count);
            let mut moment = |name: String| {
                let Some(data) = state.remove(&name) else {
                    return Err(WeightsError::Missing { name, others: 0 });
                };
                if data.shape().as_slice() != [count] {
                    return Err(WeightsError::Shape {
                        name,
                        expected: vec![count],
                        found: data.shape().to_vec(),
                    });
                }
                let own = data.iter::<f32>().skip(part.start).take(part.len());
                let own = TensorData::new(own.collect(), [part.len()]);
                Ok(Tensor::from_data(own, (&device, DType::F32)))
            };
            let [first, second] = names;
            let of_parameter = Moments {
                time: steps,
                count,
                first: moment(first)?,
                second: moment(second)?,
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

/// Replaces the values of a parameter by the result of `f`, which receives the old values without
/// autodiff. A trained parameter stays trained, and a frozen one stays frozen.
pub(super) fn with_values<const D: usize>(
    param: Param<Tensor<D>>,
    f: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Param<Tensor<D>> {
    param.map(|tensor| {
        let is_trained = tensor.is_require_grad();
        let strategy = tensor.gradient_checkpointing_strategy();
        let mut changed = Tensor::from_inner(f(tensor.inner()));
        if let Some(strategy) = strategy {
            changed = changed.with_gradient_checkpointing_strategy(strategy);
        }
        changed.set_require_grad(is_trained)
    })
}

struct Update<'a> {
    optimizer: &'a mut Optimizer,
    division: Division,
    learning_rate: f64,
    gradients: GradientsParams,
    /// Factor that the gradients are multiplied by, `[1]`. If it is `None`, the gradients are not
    /// scaled, and the update adds the sums of their squares to `squares`.
    scale: Option<Tensor<1>>,
    squares: Squares,
}

impl MapNamed for Update<'_> {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return param;
        };
        with_values(param, |tensor| {
            let shape = tensor.shape();
            let size = [shape.num_elements()];
            let updated = self.update((name, D), tensor.reshape(size), gradient.reshape(size));
            updated.reshape(shape)
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
        let [count] = parameter.dims();
        let part = self.division.part(count);
        let (time, state) = match moments.remove(&name) {
            None => (1, AdamState::new(parameter, part)),
            Some(before) => {
                let state = AdamState {
                    parameter,
                    part,
                    moment_1: before.first,
                    moment_2: before.second,
                };
                (before.time + 1, state)
            }
        };
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
        let state = match &self.scale {
            Some(scale) => adam.step(state, gradient, Some(scale)),
            None => {
                let (state, squares) = adam.step_measured(state, gradient);
                self.squares.add(squares, self.division.divides(count));
                state
            }
        };
        let after = Moments {
            time,
            count,
            first: state.moment_1,
            second: state.moment_2,
        };
        moments.insert(name, after);
        state.parameter
    }
}

#[cfg(test)]
mod tests;
