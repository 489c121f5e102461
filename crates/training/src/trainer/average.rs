//! A moving average of a model's parameters.

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use transformer::weights::{
    MapNamed, Parameters, VisitNamed, WeightsError, map_named, visit_named,
};

use super::restore::take;

/// An exponential moving average of the parameters of a model.
///
/// After each step, `average = decay * average + (1 - decay) * parameters`. `decay` is at most
/// `(1 + step) / (10 + step)`, so that the initial parameters soon lose their influence.
#[derive(Clone)]
pub struct MovingAverage {
    decay: f64,
    /// Average of each parameter, flattened to `[n]`, by parameter name.
    tensors: BTreeMap<String, Tensor<1>>,
}

impl MovingAverage {
    /// Creates an average that starts at the parameters of a module.
    pub fn new<M: Module>(decay: f64, module: &M) -> Self {
        let mut average = Self {
            decay,
            tensors: BTreeMap::new(),
        };
        average.visit(module, 0.0);
        average
    }

    /// Updates the average with the parameters after step `step`, counted from 1.
    pub fn update<M: Module>(&mut self, step: usize, module: &M) {
        let step = step as f64;
        self.visit(module, self.decay.min((1.0 + step) / (10.0 + step)));
    }

    fn visit<M: Module>(&mut self, module: &M, decay: f64) {
        let tensors = &mut self.tensors;
        visit_named(module, &mut Update { tensors, decay });
    }

    /// Returns a copy of `module`, without gradients, whose parameters are the averages.
    ///
    /// # Panics
    ///
    /// If a parameter of `module` has no average.
    pub fn module<M: Module>(&self, module: &M) -> M {
        map_named(module.valid(), &mut Replace(&self.tensors))
    }

    /// Replaces the averages by `parameters`, which were read from a checkpoint. `shapes` has the
    /// shape of each parameter by its name.
    ///
    /// # Errors
    ///
    /// If a parameter is missing or has the wrong shape.
    pub fn load(
        &mut self,
        mut parameters: Parameters,
        shapes: &BTreeMap<String, Vec<usize>>,
        device: &Device,
    ) -> Result<(), WeightsError> {
        for (name, shape) in shapes {
            let average = take(&mut parameters, name.clone(), shape, device)?;
            self.tensors.insert(name.clone(), average);
        }
        Ok(())
    }
}

struct Update<'a> {
    tensors: &'a mut BTreeMap<String, Tensor<1>>,
    decay: f64,
}

impl VisitNamed for Update<'_> {
    fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
        let mut tensor = param.val();
        if tensor.device().is_autodiff() {
            tensor = tensor.inner();
        }
        let tensor = tensor.flatten(0, D - 1);
        let average = match self.tensors.remove(&name) {
            Some(average) => average * self.decay + tensor * (1.0 - self.decay),
            None => tensor,
        };
        self.tensors.insert(name, average);
    }
}

struct Replace<'a>(&'a BTreeMap<String, Tensor<1>>);

impl MapNamed for Replace<'_> {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let average = self.0[&name].clone();
        param.map(|tensor| average.reshape(tensor.shape()))
    }
}

#[cfg(test)]
mod tests {
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
            average.update(step, &weight(value));
            let decay = 0.5f64.min((1.0 + step as f64) / (10.0 + step as f64));
            expected = decay * expected + (1.0 - decay) * f64::from(value);
            let actual = numbers(&average.module(&weight(value)));
            assert!(
                (actual[0] - expected).abs() < 1e-5,
                "{actual:?}, by hand {expected}"
            );
            assert_eq!(actual[1], -actual[0]);
        }
    }

    #[test]
    fn a_reloaded_average_continues_to_the_last_bit() {
        let mut average = MovingAverage::new(0.9, &weight(1.0));
        average.update(1, &weight(3.0));
        let saved = transformer::weights::parameters(&average.module(&weight(0.0)));
        let mut reloaded = MovingAverage::new(0.9, &weight(0.0));
        let shapes = transformer::weights::shapes(&weight(0.0));
        reloaded.load(saved, &shapes, &Device::flex()).unwrap();
        for average in [&mut average, &mut reloaded] {
            average.update(2, &weight(0.7));
        }
        let number = |average: &MovingAverage| numbers(&average.module(&weight(0.0)));
        assert_eq!(number(&average), number(&reloaded));
        let missing = reloaded.load(Parameters::new(), &shapes, &Device::flex());
        assert!(missing.is_err());
    }
}
