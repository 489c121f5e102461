//! A moving average of a model's parameters.

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use transformer::weights::{MapNamed, VisitNamed, map_named, visit_named};

/// An exponential moving average of the parameters of a model.
///
/// After each step, `average = decay * average + (1 - decay) * parameters`. `decay` is at most
/// `(1 + step) / (10 + step)`, so that the initial parameters soon lose their influence.
#[derive(Clone)]
pub(super) struct MovingAverage<M> {
    decay: f64,
    /// Model without autodiff, whose parameters are the averages.
    pub module: M,
}

impl<M: Module> MovingAverage<M> {
    /// Creates an average that starts at the parameters of a module.
    pub fn new(decay: f64, module: &M) -> Self {
        let module = module.valid();
        Self { decay, module }
    }

    /// Updates the average with the parameters after step `step`, counted from 1.
    #[must_use]
    pub fn update(self, step: usize, module: &M) -> Self {
        let step = step as f64;
        let mut update = Update {
            decay: self.decay.min((1.0 + step) / (10.0 + step)),
            parameters: BTreeMap::new(),
        };
        visit_named(module, &mut update);
        Self {
            module: map_named(self.module, &mut update),
            ..self
        }
    }
}

struct Update {
    decay: f64,
    /// Parameters after the step by name, flattened to `[n]`.
    parameters: BTreeMap<String, Tensor<1>>,
}

impl VisitNamed for Update {
    fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
        let mut tensor = param.val();
        if tensor.device().is_autodiff() {
            tensor = tensor.inner();
        }
        self.parameters.insert(name, tensor.flatten(0, D - 1));
    }
}

impl MapNamed for Update {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let now = self.parameters.remove(&name);
        let now = now.expect("the average has the model's parameters");
        param.map(|average| {
            let now = now.reshape(average.shape());
            average * self.decay + now * (1.0 - self.decay)
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[derive(Module, Debug)]
    struct Weight {
        weight: Param<Tensor<2>>,
    }

    fn weight(value: f32) -> Weight {
        Weight {
            weight: Param::from_data([[value, -value]], &Device::flex().autodiff()),
        }
    }

    fn numbers(module: &Weight) -> Vec<f64> {
        module.weight.val().into_data().iter().collect()
    }

    #[test]
    fn the_average_follows_the_parameters_by_its_decay() {
        let mut average = MovingAverage::new(0.5, &weight(1.0));
        let mut expected = 1.0;
        for (step, value) in [(1, 4.0), (2, -2.0), (100, 8.0)] {
            average = average.update(step, &weight(value));
            let decay = 0.5f64.min((1.0 + step as f64) / (10.0 + step as f64));
            expected = decay * expected + (1.0 - decay) * f64::from(value);
            let actual = numbers(&average.module);
            assert!(
                (actual[0] - expected).abs() < 1e-5,
                "{actual:?}, by hand {expected}"
            );
            assert_eq!(actual[1], -actual[0]);
        }
    }
}
