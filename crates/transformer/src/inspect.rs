//! Inspection of a model: attention weights, parameter sizes, statistics and likely tokens.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Int, Tensor};

use crate::generator::full_precision;
use crate::mask::AttentionMask;
use crate::memory::Memory;
use crate::model::Transformer;
use crate::trace::LayerTrace;

/// Results of [`Transformer::inspect`]: intermediate values of every layer, memory and logits.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Intermediate values of each encoder layer.
    pub encoder: Vec<LayerTrace>,
    /// Intermediate values of each decoder layer.
    pub decoder: Vec<LayerTrace>,
    /// Output of the encoder, `[B, S, D]`.
    pub memory: Tensor<3>,
    /// Logits of the decoder, `[B, T, V]`.
    pub logits: Tensor<3>,
}

impl Transformer {
    /// Returns the attention weights of every layer and head, the input of every feed-forward
    /// network, the memory and the logits.
    ///
    /// Dropout acts as in [`forward`](Transformer::forward): call this method on `model.valid()` for weights
    /// without it. The logits then equal the output of `forward` up to rounding: fused attention does not
    /// return weights, so this method computes attention with Burn's operations.
    ///
    /// # Shapes
    ///
    /// - source: `[B, S]`
    /// - source_mask: `[B or 1, 1, 1, S]`, `true` = blocked, see [`encode`](Transformer::encode)
    /// - target: `[B, T]`, padded at the end
    ///
    /// # Panics
    ///
    /// If `S` or `T` exceeds `max_len`, or `source` and `target` differ in `B`.
    pub fn inspect(
        &self,
        source: Tensor<2, Int>,
        source_mask: Option<&AttentionMask>,
        target: Tensor<2, Int>,
    ) -> Inspection {
        let (memory, encoder) = self
            .encoder
            .forward_traced(self.embed_source(source), source_mask);
        let memory = Memory::new(memory, source_mask.cloned());
        let x = self.decoder.input.forward(target, 0);
        let (states, decoder) = self.decoder.forward_traced(x, &memory);
        Inspection {
            encoder,
            decoder,
            memory: memory.states,
            logits: self.decoder.logits(states),
        }
    }

    /// Returns the size of the parameters in bytes, in their current precision.
    ///
    /// The scales of quantised weights are not counted.
    /// [`num_params`](Module::num_params) returns the number of parameters.
    pub fn size_bytes(&self) -> usize {
        size_bytes(self)
    }
}

/// Returns the size of a module's parameters in bytes, in their current precision.
///
/// The scales of quantised weights are not counted.
pub fn size_bytes<M: Module>(module: &M) -> usize {
    struct Size(usize);
    impl ModuleVisitor for Size {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let value = param.val();
            self.0 += value.shape().num_elements() * value.dtype().size();
        }
    }
    let mut size = Size(0);
    module.visit(&mut size);
    size.0
}

/// Mean, standard deviation and range of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorStats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation, with the divisor `n - 1` as in `torch.Tensor.std`; 0 for one
    /// element.
    pub std: f64,
    /// Smallest element.
    pub min: f64,
    /// Largest element.
    pub max: f64,
}

impl TensorStats {
    /// Computes the statistics of a tensor, in f64 on the host.
    ///
    /// # Panics
    ///
    /// If the tensor is empty.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        let values: Vec<f64> = tensor.to_data().iter::<f64>().collect();
        assert!(!values.is_empty(), "an empty tensor has no statistics");
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Self {
            mean,
            std: (squares / (n - 1.0).max(1.0)).sqrt(),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// A token and its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// Probability of the token, from the softmax of the logits over the vocabulary.
    pub probability: f32,
}

/// Returns the `k` most likely next tokens at each position, in descending order of probability.
///
/// Tokens of equal probability are sorted by id.
///
/// # Shapes
///
/// - logits: `[B, T, V]`
/// - output: nested lists of lengths `B`, `T` and `min(k, V)`
pub fn top_k(logits: Tensor<3>, k: usize) -> Vec<Vec<Vec<Candidate>>> {
    let [_, length, vocab_size] = logits.dims();
    let probabilities: Vec<f32> = softmax(full_precision(logits), 2)
        .into_data()
        .iter::<f32>()
        .collect();
    let best = |row: &[f32]| {
        let mut all: Vec<Candidate> = row
            .iter()
            .enumerate()
            .map(|(id, &probability)| Candidate {
                id: id as u32,
                probability,
            })
            .collect();
        let likelier = |a: &Candidate, b: &Candidate| {
            b.probability
                .total_cmp(&a.probability)
                .then(a.id.cmp(&b.id))
        };
        if k < all.len() {
            all.select_nth_unstable_by(k, likelier);
            all.truncate(k);
        }
        all.sort_unstable_by(likelier);
        all
    };
    probabilities
        .chunks((length * vocab_size).max(1))
        .map(|sequence| sequence.chunks(vocab_size).map(best).collect())
        .collect()
}
