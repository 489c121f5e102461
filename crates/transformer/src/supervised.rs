//! Training by burn-train (feature `burn-train`): a [`Transformer`] is trained by
//! [`SupervisedTraining`](burn::train::SupervisedTraining), on batches of a [`PairBatcher`].
//!
//! `examples/burn_train.rs` has a whole program. For a module of your own around an encoder or a
//! decoder, `examples/classifier.rs` implements the traits of burn-train itself.
//!
//! ```
//! use burn::data::dataloader::batcher::Batcher;
//! use burn::tensor::Device;
//! use burn::train::TrainStep;
//! use transformer::TransformerConfig;
//! use transformer::supervised::PairBatcher;
//!
//! let device = Device::flex().autodiff();
//! let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
//! let model = config.init(&device)?;
//! let pairs = vec![(vec![5, 6, 7], vec![7, 6, 5]), (vec![8], vec![8])];
//! let batch = PairBatcher::new(1, 2).batch(pairs, &device);
//! let output = model.step(batch);
//! assert_eq!(output.item.logits.dims(), [2, 4, 20]);
//! # Ok::<(), transformer::ConfigError>(())
//! ```

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::{Device, Int, Tensor};
use burn::train::{InferenceStep, SequenceOutput, TrainOutput, TrainStep};

use crate::error::ConfigError;
use crate::loss::CrossEntropy;
use crate::mask::AttentionMask;
use crate::model::Transformer;
use crate::sequence::{IGNORE_INDEX, pad_sequences};

/// A batch of sources and targets.
#[derive(Clone, Debug)]
pub struct PairBatch {
    /// Sources `[B, S]`, padded at the end.
    pub source: Tensor<2, Int>,
    /// Mask of the sources' padding, `[B, 1, 1, S]`.
    pub source_mask: AttentionMask,
    /// Inputs of the decoder, `[B, T]`: the begin symbol and the target's tokens.
    pub target: Tensor<2, Int>,
    /// What the decoder should predict, `[B, T]`: the target's tokens and the end symbol, padded
    /// with [`IGNORE_INDEX`].
    pub labels: Tensor<2, Int>,
    pad_id: u32,
    criterion: CrossEntropy,
}

/// Makes batches of pairs of token ids, source and target, without begin and end symbols.
#[derive(Clone, Debug)]
pub struct PairBatcher {
    bos_id: u32,
    eos_id: u32,
    pad_id: u32,
    criterion: CrossEntropy,
}

impl PairBatcher {
    /// Creates a batcher for a vocabulary with these begin and end symbols, padding 0 and no label
    /// smoothing.
    pub fn new(bos_id: u32, eos_id: u32) -> Self {
        Self {
            bos_id,
            eos_id,
            pad_id: 0,
            criterion: CrossEntropy::new(0.0).expect("no smoothing is valid"),
        }
    }

    /// Sets the id that pads sources and targets, and the targets of burn-train's metrics: pass it
    /// to `AccuracyMetric::with_pad_token`.
    ///
    /// The loss knows padding by its place, but these metrics know it by its id: they leave out tokens
    /// that have it, such as end symbols if it is `eos_id`.
    pub fn with_pad_id(mut self, pad_id: u32) -> Self {
        self.pad_id = pad_id;
        self
    }

    /// Sets the label smoothing of the loss (paper, section 5.4), usually of training batches only.
    ///
    /// # Errors
    ///
    /// The value is not at least 0 and less than 1.
    pub fn with_label_smoothing(mut self, label_smoothing: f64) -> Result<Self, ConfigError> {
        self.criterion = CrossEntropy::new(label_smoothing)?;
        Ok(self)
    }
}

impl Batcher<(Vec<u32>, Vec<u32>), PairBatch> for PairBatcher {
    fn batch(&self, pairs: Vec<(Vec<u32>, Vec<u32>)>, device: &Device) -> PairBatch {
        let (sources, targets): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
        let of = |before: Option<u32>, target: &[u32], after: Option<u32>| -> Vec<u32> {
            let middle = target.iter().copied();
            before.into_iter().chain(middle).chain(after).collect()
        };
        let inputs = targets.iter().map(|ids| of(Some(self.bos_id), ids, None));
        let labels = targets.iter().map(|ids| of(None, ids, Some(self.eos_id)));
        let (inputs, labels): (Vec<_>, Vec<_>) = (inputs.collect(), labels.collect());
        PairBatch {
            source: pad_sequences(&sources, self.pad_id, device),
            source_mask: AttentionMask::of_lengths(&lengths, device),
            target: pad_sequences(&inputs, self.pad_id, device),
            labels: pad_sequences(&labels, IGNORE_INDEX, device),
            pad_id: self.pad_id,
            criterion: self.criterion,
        }
    }
}

impl TrainStep for Transformer {
    type Input = PairBatch;
    type Output = SequenceOutput;

    fn step(&self, batch: PairBatch) -> TrainOutput<SequenceOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Transformer {
    type Input = PairBatch;
    type Output = SequenceOutput;

    /// Computes loss and logits of a batch. Labels without loss are the batch's padding in the
    /// output, as burn-train's metrics take them.
    fn step(&self, batch: PairBatch) -> SequenceOutput {
        let logits = self.forward(batch.source, Some(&batch.source_mask), batch.target);
        let loss = batch
            .criterion
            .forward(logits.clone(), batch.labels.clone());
        let is_ignored = batch.labels.clone().lower_elem(0);
        let targets = batch.labels.mask_fill(is_ignored, batch.pad_id);
        SequenceOutput::new(loss, logits, None, targets)
    }
}
