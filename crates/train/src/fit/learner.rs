//! A model and what it learns by: one batch, one update.

use anyhow::Result;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};
use transformer::{CrossEntropy, Transformer};

use super::Precision;
use crate::batch::Batch;
use crate::config::RunConfig;
use crate::optimizer::Optimizer;

/// A model under training: what `fit` takes its steps with, and what `bench` measures.
pub struct Learner {
    /// Away only while it is updated, so that nothing else holds its tensors then.
    model: Option<Transformer>,
    optimizer: Optimizer,
    criterion: CrossEntropy,
    precision: Precision,
    /// Tokens whose logits are there at once; none for all.
    loss_chunk: Option<usize>,
}

impl Learner {
    /// With moments of zero.
    ///
    /// # Errors
    ///
    /// A label smoothing that cannot be.
    pub fn new(config: &RunConfig, model: Transformer) -> Result<Self> {
        Ok(Self {
            model: Some(config.precision.master(model)),
            optimizer: Optimizer::new(&config.optimizer),
            criterion: CrossEntropy::new(config.label_smoothing, config.model.pad_id)?,
            precision: config.precision,
            loss_chunk: config.loss_chunk,
        })
    }

    /// The model, its parameters in f32.
    pub fn model(&self) -> &Transformer {
        self.model.as_ref().expect("no update is under way")
    }

    /// Another one of the same shape.
    pub(super) fn set_model(&mut self, model: Transformer) {
        self.model = Some(model);
    }

    /// The optimiser.
    pub fn optimizer(&self) -> &Optimizer {
        &self.optimizer
    }

    /// The optimiser.
    pub(super) fn optimizer_mut(&mut self) -> &mut Optimizer {
        &mut self.optimizer
    }

    /// The forward pass: the batch's share of the mean loss over `tokens` tokens, `[1]`.
    pub fn loss(&self, batch: Batch, tokens: usize) -> Tensor<1> {
        fused::in_pool(&batch.source.device(), || {
            let model = self.precision.computing(self.model());
            if let (Some(rows), Precision::F32) = (self.loss_chunk, self.precision) {
                let memory = model.encode(batch.source);
                let decoder = &model.decoder;
                let x = decoder.input.forward(batch.target, 0);
                let states = decoder.forward_vectors(x, &memory, &mut model.new_cache());
                let loss = self.criterion;
                let loss = loss.sum_in_chunks(decoder, states, batch.right, rows);
                return loss.sum / tokens as f64;
            }
            let mut logits = model.forward(batch.source, batch.target);
            if self.precision != Precision::F32 {
                logits = logits.cast(FloatDType::F32);
            }
            self.criterion.sum(logits, batch.right).sum / tokens as f64
        })
    }

    /// The backward pass of a loss that was multiplied by the loss scale.
    pub fn gradients(&self, loss: Tensor<1>) -> GradientsParams {
        fused::in_pool(&loss.device(), || {
            GradientsParams::from_grads(loss.backward(), self.model())
        })
    }

    /// One update of all parameters, and the gradient's length; see [`Optimizer::step`].
    pub fn update(
        &mut self,
        learning_rate: f64,
        gradients: GradientsParams,
        norm: Option<Tensor<1>>,
        loss_scale: f64,
    ) -> Tensor<1> {
        let model = self.model.take().expect("no update is under way");
        let device = model.devices().remove(0);
        let optimizer = &mut self.optimizer;
        let (model, norm) = fused::in_pool(&device, || {
            optimizer.step(learning_rate, model, gradients, norm, loss_scale)
        });
        self.model = Some(model);
        norm
    }
}
