//! Cross-entropy with label smoothing (paper, section 5.4).
//!
//! In the smoothed distribution, each of the `V` tokens of the vocabulary has the probability
//! `ε / V`. The label has `1 - ε` in addition. The loss is the cross-entropy between the smoothed
//! distribution and the model's distribution `p`:
//!
//! ```text
//! loss = mean over labels of  -(1 - ε) log p(label) - ε / V  Σ_v log p(v)
//! ```
//!
//! The loss equals `torch.nn.functional.cross_entropy(label_smoothing = ε)`, except
//! that it is 0 instead of NaN if all labels are ignored. Every negative label is ignored, for
//! example PyTorch's `ignore_index` -100, which is [`IGNORE_INDEX`](crate::IGNORE_INDEX).

use burn::tensor::{DType, FloatDType, Int, Tensor};

use crate::decoder::Decoder;
use crate::error::{ConfigError, number};
use crate::generator::{full_precision, is_half};
use crate::mask::AttentionMask;
use crate::memory::Memory;
use crate::model::Transformer;

/// Label-smoothed cross-entropy over the labels that are not negative.
///
/// [`fused::cross_entropy`] has the loss of each label, for weights of your own.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy {
    smoothing: f64,
}

/// The loss summed over labels, and the number of these labels.
///
/// To average over several batches, add up `sum` and `tokens` before you divide. They are in f32, or f64
/// for a model in f64.
///
/// A step over several batches accumulates gradients of which each label counts the same:
///
/// ```
/// use burn::optim::{AdamWConfig, GradientsAccumulator, GradientsParams};
/// use burn::tensor::Device;
/// use transformer::{CrossEntropy, DecoderConfig, pad_sequences};
///
/// let device = Device::flex().autodiff();
/// let config = DecoderConfig::new(20, 16, 32, 2, 1).with_cross_attention(false);
/// let mut model = config.init(&device)?;
/// let (mut optimizer, criterion) = (AdamWConfig::new().init(), CrossEntropy::new(0.1)?);
///
/// let batches: [(&[u32], &[u32]); 2] = [(&[5, 6, 7], &[6, 7, 8]), (&[9], &[10])];
/// let tokens: usize = batches.iter().map(|(_, labels)| labels.len()).sum();
/// let mut gradients = GradientsAccumulator::new();
/// for (inputs, labels) in batches {
///     let [inputs, labels] = [inputs, labels].map(|ids| pad_sequences(&[ids], 0, &device));
///     let loss = model.loss(None, inputs, labels, &criterion, None);
///     let of_batch = (loss.sum / tokens as f32).backward();
///     gradients.accumulate(&model, GradientsParams::from_grads(of_batch, &model));
/// }
/// model = optimizer.step(1e-3, model, gradients.grads());
/// # Ok::<(), transformer::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LossSum {
    /// Sum of the loss over the labels that are not negative, `[1]`, in nats.
    pub sum: Tensor<1>,
    /// Sum of the loss without label smoothing, `[1]`, in nats, without gradient. It can be compared
    /// with the loss of an evaluation.
    pub unsmoothed: Tensor<1>,
    /// Number of these labels, `[1]`, without gradient.
    pub tokens: Tensor<1>,
}

impl LossSum {
    /// Adds up the losses of labels, `[N]` each.
    fn new(loss: Tensor<1>, unsmoothed: Tensor<1>, labels: Tensor<1, Int>) -> Self {
        let precision = FloatDType::from(loss.dtype());
        Self {
            sum: loss.sum(),
            unsmoothed: unsmoothed.sum(),
            tokens: labels.greater_equal_elem(0).int().sum().cast(precision),
        }
    }

    /// Returns the mean loss per label, `[1]`, in nats; 0 if all labels are ignored.
    pub fn mean(self) -> Tensor<1> {
        self.sum / self.tokens.clamp_min(1.0)
    }
}

impl CrossEntropy {
    /// Creates the loss with label smoothing `ε = smoothing`; 0 is plain cross-entropy.
    ///
    /// # Errors
    ///
    /// `smoothing` is not in `[0, 1)`.
    pub fn new(smoothing: f64) -> Result<Self, ConfigError> {
        if !(0.0..1.0).contains(&smoothing) {
            return Err(ConfigError::new(
                "label_smoothing",
                number(smoothing),
                "at least 0 and less than 1",
            ));
        }
        Ok(Self { smoothing })
    }

    /// Returns the mean loss per label, `[1]`, in nats; 0 if all labels are ignored.
    ///
    /// # Shapes
    ///
    /// - logits: `[B, T, V]`
    /// - labels: `[B, T]`, the token that follows each position; negative labels are ignored
    ///
    /// # Panics
    ///
    /// If `logits` and `labels` differ in `B` or `T`. A label that is not below `V` may also cause
    /// a panic.
    pub fn forward(&self, logits: Tensor<3>, labels: Tensor<2, Int>) -> Tensor<1> {
        self.sum(logits, labels).mean()
    }

    /// Returns the sum of the loss and the number of labels that are not ignored.
    ///
    /// # Shapes
    ///
    /// - logits: `[B, T, V]`
    /// - labels: `[B, T]`, the token that follows each position; negative labels are ignored
    ///
    /// # Panics
    ///
    /// If `logits` and `labels` differ in `B` or `T`. A label that is not below `V` may also cause
    /// a panic.
    pub fn sum(&self, logits: Tensor<3>, labels: Tensor<2, Int>) -> LossSum {
        let [batch, length, vocab_size] = logits.dims();
        assert_eq!(
            [batch, length],
            labels.dims(),
            "logits are [{batch}, {length}, {vocab_size}], but labels are {:?}",
            labels.dims()
        );
        let rows = batch * length;
        let labels = labels.reshape([rows]);
        let logits = full_precision(logits).reshape([rows, vocab_size]);
        let (loss, unsmoothed) = fused::cross_entropy(logits, labels.clone(), self.smoothing);
        LossSum::new(loss, unsmoothed, labels)
    }

    /// Computes the sum of the loss from decoder states, without holding all logits at once.
    ///
    /// The decoder's generator computes the logits of at most `rows_at_a_time` tokens at a time.
    /// This avoids a tensor of `B * T * V` elements, but costs one more matmul in the backward
    /// pass, which computes the logits again.
    ///
    /// Logits in half precision or of a quantised weight are held at once, in f32. So are all
    /// without a fast path of `fused`. Unless fast paths are off, there is one in these cases:
    ///
    /// - With autodiff, on every backend that a feature of this crate enables, if the feature
    ///   `autodiff` is enabled, too. In WebAssembly with flex alone, only f32 has a fast path.
    /// - Without autodiff, on flex in f32, if the feature `flex` is enabled.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`, from [`Decoder::forward_states`]
    /// - labels: `[B, T]`, the token that follows each position; negative labels are ignored
    ///
    /// # Panics
    ///
    /// If `states` and `labels` differ in `B` or `T`, or `rows_at_a_time` is 0. A label that is not
    /// below `V` may also cause a panic.
    pub fn sum_in_chunks(
        &self,
        decoder: &Decoder,
        states: Tensor<3>,
        labels: Tensor<2, Int>,
        rows_at_a_time: usize,
    ) -> LossSum {
        let [batch, length, d_model] = states.dims();
        assert_eq!(
            [batch, length],
            labels.dims(),
            "states are [{batch}, {length}, {d_model}], but labels are {:?}",
            labels.dims()
        );
        let rows = batch * length;
        let generator = &decoder.generator;
        let weight = decoder.generator_weight();
        if is_half(states.dtype()) || matches!(weight.dtype(), DType::QFloat(_)) {
            return self.sum(decoder.logits(states), labels);
        }
        let labels = labels.reshape([rows]);
        let bias = match &generator.bias {
            Some(bias) => bias.val(),
            None => Tensor::zeros([weight.dims()[1]], (&states.device(), states.dtype())),
        };
        let (loss, unsmoothed) = fused::linear_cross_entropy(
            generator.scaled(states).reshape([rows, d_model]),
            weight,
            bias,
            labels.clone(),
            self.smoothing,
            rows_at_a_time,
        );
        LossSum::new(loss, unsmoothed, labels)
    }
}

impl Transformer {
    /// Returns the teacher-forced loss of a batch, from which a training step computes gradients.
    ///
    /// If `chunk` is given, the logits of at most `chunk` tokens are held at a time; see
    /// [`CrossEntropy::sum_in_chunks`]. If `chunk` is `None`, all logits are held at once.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::{AttentionMask, CrossEntropy, IGNORE_INDEX, TransformerConfig, pad_sequences};
    ///
    /// let device = Device::flex().autodiff();
    /// let model = TransformerConfig::new(20, 20)
    ///     .with_d_model(16)
    ///     .with_n_heads(2)
    ///     .with_dropout(0.0)
    ///     .init_seeded(1, &device)?;
    ///
    /// // The decoder reads the begin symbol 1 and the target. It predicts the target and the end
    /// // symbol 2.
    /// let source = pad_sequences(&[vec![5, 6, 7], vec![8]], 0, &device);
    /// let source_mask = AttentionMask::of_lengths(&[3, 1], &device);
    /// let target = pad_sequences(&[vec![1, 9, 10], vec![1, 11]], 0, &device);
    /// let labels = pad_sequences(&[vec![9, 10, 2], vec![11, 2]], IGNORE_INDEX, &device);
    ///
    /// let criterion = CrossEntropy::new(0.1)?;
    /// let loss = model.loss(source, Some(&source_mask), target, labels, &criterion, None);
    /// assert_eq!(loss.tokens.clone().into_scalar::<f32>(), 5.0);
    /// let gradients = loss.mean().backward();
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Shapes
    ///
    /// - source: `[B, S]`
    /// - source_mask: `[B or 1, 1, 1, S]`, `true` = blocked, see [`encode`](Self::encode); with `None`, the
    ///   model learns to read the padding of sources, which [`generate`](Self::generate) hides from it
    /// - target: `[B, T]`, tokens that the decoder reads, padded at the end
    /// - labels: `[B, T]`, tokens that the decoder should predict after each target token; negative
    ///   labels are ignored
    ///
    /// # Panics
    ///
    /// If the shapes do not fit together, `S` or `T` exceeds `max_len`, or `chunk` is 0 and not
    /// ignored. A label that is not below `V` may also cause a panic.
    pub fn loss(
        &self,
        source: Tensor<2, Int>,
        source_mask: Option<&AttentionMask>,
        target: Tensor<2, Int>,
        labels: Tensor<2, Int>,
        criterion: &CrossEntropy,
        chunk: Option<usize>,
    ) -> LossSum {
        let memory = self.encode(source, source_mask);
        self.decoder.loss(&memory, target, labels, criterion, chunk)
    }
}

impl Decoder {
    /// Returns the teacher-forced loss of a batch: with a memory as the decoder of a whole model, without
    /// one as a language model. `chunk` is as in [`Transformer::loss`].
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::{CrossEntropy, DecoderConfig, IGNORE_INDEX, pad_sequences};
    ///
    /// let device = Device::flex().autodiff();
    /// let config = DecoderConfig::new(20, 16, 32, 2, 1).with_cross_attention(false);
    /// let model = config.init_seeded(1, &device)?;
    ///
    /// // A language model predicts what follows each token.
    /// let texts = [vec![5, 6, 7, 8], vec![9, 10, 11]];
    /// let inputs: Vec<_> = texts.iter().map(|text| &text[..text.len() - 1]).collect();
    /// let labels: Vec<_> = texts.iter().map(|text| &text[1..]).collect();
    /// let inputs = pad_sequences(&inputs, 0, &device);
    /// let labels = pad_sequences(&labels, IGNORE_INDEX, &device);
    ///
    /// let criterion = CrossEntropy::new(0.0)?;
    /// let loss = model.loss(None, inputs, labels, &criterion, None);
    /// assert_eq!(loss.tokens.clone().into_scalar::<f32>(), 5.0);
    /// let gradients = loss.mean().backward();
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Shapes
    ///
    /// - target: `[B, T]`, tokens that the decoder reads, padded at the end
    /// - labels: `[B, T]`, tokens that the decoder should predict after each target token; negative
    ///   labels are ignored
    ///
    /// # Panics
    ///
    /// In the cases of [`Transformer::loss`], or if a decoder with cross-attention gets no memory, or a
    /// decoder without it gets a memory.
    pub fn loss<'a>(
        &self,
        memory: impl Into<Option<&'a Memory>>,
        target: Tensor<2, Int>,
        labels: Tensor<2, Int>,
        criterion: &CrossEntropy,
        chunk: Option<usize>,
    ) -> LossSum {
        let states = self.forward_states(target, memory, &mut self.new_cache());
        match chunk {
            Some(rows) => criterion.sum_in_chunks(self, states, labels, rows),
            None => criterion.sum(self.logits(states), labels),
        }
    }
}
