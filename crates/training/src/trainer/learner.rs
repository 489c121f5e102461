//! A model in training and its optimizer: the passes and the update of a step.

use std::time::Instant;

use anyhow::Result;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use transformer::{CrossEntropy, Transformer};

use super::average::MovingAverage;
use super::division::Division;
use super::optimizer::Optimizer;
use super::precision::Mixed;
use super::reduce::{reduce, share};
use super::sums::Squares;
use crate::collective::Collective;
use crate::config::{LoraConfig, RunConfig};
use crate::data::Batch;
use crate::lora::{merged, with_lora};

/// A model in training, with its optimizer.
pub struct Learner {
    /// Model in training. It is `None` only during an update, so that its tensors have a single
    /// owner and can be updated in place.
    pub(super) model: Option<Transformer>,
    /// Optimizer, with the moments of the trained parameters.
    pub(super) optimizer: Optimizer,
    /// Moving average of the parameters; `None` if the run has no moving average.
    pub(super) average: Option<MovingAverage<Transformer>>,
    criterion: CrossEntropy,
    mixed: Mixed,
    loss_chunk: Option<usize>,
    /// Rank and alpha of LoRA; `None` without LoRA.
    lora: Option<LoraConfig>,
    /// Seconds, over all steps, in which the process exchanged gradients and parameters with others
    /// or waited for them to do so.
    pub exchange_seconds: f64,
}

impl Learner {
    /// Creates a learner for a model, with moments of zero. If the configuration has LoRA, its
    /// matrices are added to the model.
    ///
    /// # Errors
    ///
    /// If label smoothing is not valid.
    pub fn new(config: &RunConfig, model: Transformer) -> Result<Self> {
        let (execution, optimization) = (&config.execution, &config.optimization);
        let ema = optimization.ema;
        let device = model.devices().remove(0);
        let mixed = Mixed::of(execution.precision, &device);
        if optimization.lora.is_some() {
            device.seed(config.seed);
        }
        let model = mixed.master(with_lora(model, optimization.lora.as_ref()));
        Ok(Self {
            optimizer: Optimizer::new(&optimization.optimizer),
            average: ema.map(|decay| MovingAverage::new(decay, &model)),
            criterion: CrossEntropy::new(optimization.label_smoothing)?,
            mixed,
            loss_chunk: execution.loss_chunk,
            lora: optimization.lora,
            exchange_seconds: 0.0,
            model: Some(model),
        })
    }

    /// Returns the model in training, whose parameters are in f32.
    pub fn model(&self) -> &Transformer {
        self.model.as_ref().expect("no update is under way")
    }

    /// Returns the model to evaluate, in the precision of the run. Its parameters are the moving
    /// averages if the run has them.
    pub(crate) fn evaluated_model(&self) -> Transformer {
        let model = match &self.average {
            Some(average) => average.module.clone(),
            None => self.model().valid(),
        };
        self.computing(model)
    }

    /// Returns a model with the parameters of a checkpoint, without gradients, as it is evaluated:
    /// LoRA's matrices are merged, and it has the precision of the run.
    pub(super) fn computing(&self, model: Transformer) -> Transformer {
        self.mixed.computing(&merged(model, self.lora.as_ref()))
    }

    /// Runs the forward pass of a batch and returns the sum of its losses divided by `tokens`,
    /// `[1]`, and the same without label smoothing and gradient. `tokens` is the number of tokens in
    /// all batches of the step, in all processes.
    pub fn loss(&self, batch: Batch, tokens: usize) -> (Tensor<1>, Tensor<1>) {
        fused::in_pool(&batch.source.device(), || {
            let _format = self.mixed.matmuls();
            let model = self.mixed.computing(self.model());
            let (mask, chunk) = (Some(&batch.source_mask), self.loss_chunk);
            let (source, target, labels) = (batch.source, batch.target, batch.labels);
            let loss = model.loss(source, mask, target, labels, &self.criterion, chunk);
            (loss.sum / tokens as f64, loss.unsmoothed / tokens as f64)
        })
    }

    /// Runs the backward pass of a loss, which may have been multiplied by a loss scale, and
    /// returns the gradients.
    pub fn gradients(&self, loss: Tensor<1>) -> GradientsParams {
        fused::in_pool(&loss.device(), || {
            let _format = self.mixed.matmuls();
            GradientsParams::from_grads(loss.backward(), self.model())
        })
    }

    /// Returns the sums of the gradients and losses of all processes of a group.
    ///
    /// Of the gradients of divided parameters, only this process's parts are summed. `loss` is
    /// `None` if this process has no share of the step.
    ///
    /// # Panics
    ///
    /// If the group is a single process and `loss` is `None`.
    pub fn exchange(
        &mut self,
        gradients: GradientsParams,
        loss: Option<Tensor<1>>,
        group: &dyn Collective,
    ) -> (GradientsParams, Tensor<1>) {
        if group.size() == 1 {
            return (gradients, loss.expect("a step has a batch"));
        }
        let model = self.model.as_ref().expect("no update is under way");
        let division = Division::of(group, model);
        let seconds = &mut self.exchange_seconds;
        reduce(group, division, model, gradients, loss, seconds)
    }

    /// Returns the global norm of gradients that all processes of a group have
    /// [exchanged](Self::exchange), `[1]`.
    pub(super) fn gradient_norm(
        &mut self,
        gradients: &mut GradientsParams,
        group: &dyn Collective,
    ) -> Tensor<1> {
        let model = self.model.as_ref().expect("no update is under way");
        let division = Division::of(group, model);
        let device = model.devices().remove(0);
        // `GradientsParams` is `Send`, but not `Sync`, so another thread can use it only through a
        // mutable reference.
        let squares = fused::in_pool(&device, move || Squares::of(model, gradients, division));
        self.norm_of(squares, group)
    }

    /// Returns the norm of gradients, `[1]`, whose sums of squares this process has.
    fn norm_of(&mut self, squares: Squares, group: &dyn Collective) -> Tensor<1> {
        let begun = Instant::now();
        let norm = squares.norm(group);
        if group.size() > 1 {
            self.exchange_seconds += begun.elapsed().as_secs_f64();
        }
        norm
    }

    /// Updates all parameters that have a gradient, and returns the global gradient norm before
    /// clipping, `[1]`.
    ///
    /// `gradients` are the gradients of a loss that was multiplied by `loss_scale`. `norm` is their
    /// global norm divided by `loss_scale`, `[1]`; `None` if the caller does not know it. Processes
    /// of a group divide the updates of large parameters, and send each other the results.
    ///
    /// # Panics
    ///
    /// If no parameter has a gradient, or if an earlier update had a group of another size.
    pub fn update(
        &mut self,
        learning_rate: f64,
        mut gradients: GradientsParams,
        norm: Option<Tensor<1>>,
        loss_scale: f64,
        group: &dyn Collective,
    ) -> Tensor<1> {
        let is_needed = norm.is_none() && self.optimizer.needs_norm(loss_scale);
        let computed = is_needed.then(|| self.gradient_norm(&mut gradients, group) / loss_scale);
        let norm = norm.or(computed);
        let model = self.model.take().expect("no update is under way");
        let division = Division::of(group, &model);
        let device = model.devices().remove(0);
        let optimizer = &mut self.optimizer;
        let (model, squares) = fused::in_pool(&device, || {
            let norm = norm.as_ref();
            optimizer.step(learning_rate, model, gradients, norm, loss_scale, division)
        });
        self.model = Some(match group.size() {
            1 => model,
            _ => share(group, division, model, &mut self.exchange_seconds),
        });
        norm.unwrap_or_else(|| self.norm_of(squares, group))
    }
}
