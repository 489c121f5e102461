//! Probabilities and alignments of given targets.

use burn::tensor::Tensor;

use super::error::GenerateError;
use crate::decoder::Decoder;
use crate::dropout::without_dropout;
use crate::error::{ConfigError, InputError};
use crate::memory::Memory;
use crate::model::Transformer;
use crate::sequence::{check_sequences, pad_sequences};

/// Number of tokens whose logits are held together: 64 MB with a vocabulary of 32,000.
const LOGITS_AT_ONCE: usize = 512;

/// The log-probability of a given target.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TargetScore {
    /// Log-probability of each token in nats, including the end symbol if there is one.
    pub token_log_probabilities: Vec<f32>,
    /// Sum of `token_log_probabilities`.
    pub log_probability: f64,
}

impl Decoder {
    /// Returns the log-probability of each sequence: of its tokens after the first, each given those
    /// before it and the memory.
    ///
    /// Begin and end symbols are tokens of a sequence like others. The perplexity of a text of two or
    /// more tokens is `exp(-log_probability / token_log_probabilities.len())`.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::DecoderConfig;
    ///
    /// let config = DecoderConfig::new(20, 16, 32, 2, 1).with_cross_attention(false);
    /// let language_model = config.init_seeded(1, &Device::flex())?;
    ///
    /// let scores = language_model.score(None, &[vec![5, 6, 7], vec![8, 9]])?;
    /// assert_eq!(scores[0].token_log_probabilities.len(), 2); // tokens 6 and 7
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no sequence, the decoder cannot process one, or a log-probability is NaN.
    ///
    /// # Panics
    ///
    /// If a decoder with cross-attention gets no memory, or a decoder without it gets a memory, or
    /// the memory has not one source for each sequence.
    pub fn score<'a>(
        &self,
        memory: impl Into<Option<&'a Memory>>,
        sequences: &[impl AsRef<[u32]>],
    ) -> Result<Vec<TargetScore>, GenerateError> {
        let sequences: Vec<&[u32]> = sequences.iter().map(AsRef::as_ref).collect();
        // The last token is not read, only predicted.
        let inputs = sequences.iter().map(|it| &it[..it.len().saturating_sub(1)]);
        let inputs: Vec<&[u32]> = inputs.collect();
        let max_len = self.max_len().unwrap_or(usize::MAX);
        check_sequences(&sequences, self.vocab_size(), usize::MAX)?;
        check_sequences(&inputs, self.vocab_size(), max_len)?;
        let device = self.input.table().device();
        let decoder = without_dropout(self, &device);
        let memory = memory.into().map(|memory| memory.clone().inner());
        let device = decoder.input.table().device();
        let labels: Vec<&[u32]> = sequences
            .iter()
            .map(|it| it.get(1..).unwrap_or(&[]))
            .collect();
        let ids = pad_sequences(&inputs, 0, &device);
        let states = decoder.forward_states(ids, memory.as_ref(), &mut decoder.new_cache());
        let padded = pad_sequences(&labels, 0, &device).unsqueeze_dim::<3>(2);
        let [batch, length, _] = states.dims();
        let at_once = LOGITS_AT_ONCE.div_ceil(batch);
        let of_labels = (0..length).step_by(at_once).map(|start| {
            let count = at_once.min(length - start);
            let states = states.clone().narrow(1, start, count);
            decoder
                .log_probabilities(states)
                .gather(2, padded.clone().narrow(1, start, count))
        });
        let data = Tensor::cat(of_labels.collect(), 1).into_data();
        let of_labels: Vec<f32> = data.iter::<f32>().collect();
        let score = |(sequence, (row, labels)): (usize, (&[f32], &&[u32]))| {
            let token_log_probabilities = row[..labels.len()].to_vec();
            if let Some(position) = token_log_probabilities.iter().position(|x| x.is_nan()) {
                return Err(GenerateError::NotFinite { sequence, position });
            }
            let log_probability = token_log_probabilities
                .iter()
                .fold(0.0, |sum, &x| sum + f64::from(x));
            Ok(TargetScore {
                token_log_probabilities,
                log_probability,
            })
        };
        let rows = of_labels.chunks(length).zip(&labels);
        rows.enumerate().map(score).collect()
    }
}

impl Transformer {
    /// Returns the log-probability of each target, given its source: `ln p(target | source)`.
    ///
    /// The targets must not have begin and end symbols, because the function adds `bos_id` and
    /// `eos_id`. If `eos_id` is `None`, no end symbol is added.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    ///
    /// let (sources, targets) = ([[5, 6, 7], [5, 6, 7]], [vec![8], vec![9, 10]]);
    /// let scores = model.score(&sources, &targets, 1, Some(2))?;
    /// assert_eq!(scores[0].token_log_probabilities.len(), 2); // token 8 and the end symbol
    /// assert!(scores[1].log_probability < 0.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The batch is empty, `eos_id` is not in the vocabulary, the model cannot process a sequence,
    /// or a log-probability is NaN.
    ///
    /// # Panics
    ///
    /// If the numbers of sources and targets differ.
    pub fn score(
        &self,
        sources: &[impl AsRef<[u32]>],
        targets: &[impl AsRef<[u32]>],
        bos_id: u32,
        eos_id: Option<u32>,
    ) -> Result<Vec<TargetScore>, GenerateError> {
        let vocab_size = self.decoder.vocab_size();
        if let Some(id) = eos_id.filter(|&id| id as usize >= vocab_size) {
            let expected = format!("less than the vocabulary size ({vocab_size})");
            return Err(ConfigError::new("eos_id", id, expected).into());
        }
        self.shifted(sources, targets, bos_id, eos_id.is_some())?;
        let model = without_dropout(self, &self.device());
        let memory = model.encode_checked(sources)?;
        let whole = targets.iter().map(|target| {
            let target = target.as_ref().iter().copied();
            std::iter::once(bos_id)
                .chain(target)
                .chain(eos_id)
                .collect()
        });
        model
            .decoder
            .score(&memory, &whole.collect::<Vec<Vec<u32>>>())
    }

    /// Returns the alignment of each target with its source: cross-attention weights, averaged over
    /// the heads.
    ///
    /// The result has, for each target, one row per target token, with one weight per source token.
    /// A row holds the weights of decoder layer `layer` (from 0) at the position that predicts the
    /// target token. The weights of a row sum to 1, unless the source is empty or all padding.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    ///
    /// let last_layer = model.decoder.layers.len() - 1;
    /// let alignments = model.align(&[[5, 6, 7]], &[[8, 9]], 1, last_layer)?;
    /// assert_eq!(alignments[0].len(), 2); // one row per target token
    /// let sum: f32 = alignments[0][1].iter().sum();
    /// assert!((sum - 1.0).abs() < 1e-5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The batch is empty, the model cannot process a sequence, or a weight is not finite.
    ///
    /// # Panics
    ///
    /// If the numbers of sources and targets differ, or the decoder has no layer `layer`.
    pub fn align(
        &self,
        sources: &[impl AsRef<[u32]>],
        targets: &[impl AsRef<[u32]>],
        bos_id: u32,
        layer: usize,
    ) -> Result<Vec<Vec<Vec<f32>>>, GenerateError> {
        let n_layers = self.decoder.layers.len();
        assert!(
            layer < n_layers,
            "layer is {layer}, but the decoder has only {n_layers} layers"
        );
        let inputs = self.shifted(sources, targets, bos_id, false)?;
        let model = without_dropout(self, &self.device());
        let memory = model.encode_checked(sources)?;
        let ids = pad_sequences(&inputs, 0, &model.device());
        let x = model.decoder.input.forward(ids, 0);
        let (_, trace) = model.decoder.forward_traced(x, &memory);
        let weights = trace[layer].cross_attention.clone();
        let weights: Tensor<4> = weights.expect("the decoder of a whole model has cross-attention");
        let [_, _, length, width] = weights.dims();
        let data = weights.mean_dim(1).into_data();
        let weights: Vec<f32> = data.iter::<f32>().collect();
        let pairs = sources.iter().zip(&inputs);
        let align = |(sequence, (rows, (source, input))): (usize, (&[f32], (&_, &Vec<u32>)))| {
            let source: &[u32] = AsRef::as_ref(source);
            let rows = rows.chunks(width).take(input.len()).enumerate();
            let row = |(position, row): (usize, &[f32])| {
                if row.iter().all(|x| x.is_finite()) {
                    Ok(row[..source.len()].to_vec())
                } else {
                    Err(GenerateError::NotFinite { sequence, position })
                }
            };
            rows.map(row).collect()
        };
        let rows = weights.chunks(length * width).zip(pairs);
        rows.enumerate().map(align).collect()
    }

    /// Checks the targets and returns the decoder's inputs: the begin symbol and each target.
    ///
    /// If `with_end` is false, the decoder need not predict the end symbol that follows a target.
    /// The last token of each input is then omitted.
    fn shifted(
        &self,
        sources: &[impl AsRef<[u32]>],
        targets: &[impl AsRef<[u32]>],
        bos_id: u32,
        with_end: bool,
    ) -> Result<Vec<Vec<u32>>, InputError> {
        assert_eq!(
            sources.len(),
            targets.len(),
            "there are {} sources, but {} targets",
            sources.len(),
            targets.len()
        );
        let shifted = |target: &_| {
            let target: &[u32] = AsRef::as_ref(target);
            let mut input = Vec::with_capacity(target.len() + 1);
            input.push(bos_id);
            input.extend_from_slice(target);
            if !with_end {
                input.pop();
            }
            input
        };
        let inputs: Vec<Vec<u32>> = targets.iter().map(shifted).collect();
        let max_len = self.decoder.max_len().unwrap_or(usize::MAX);
        check_sequences(targets, self.decoder.vocab_size(), usize::MAX)?;
        check_sequences(&inputs, self.decoder.vocab_size(), max_len)?;
        Ok(inputs)
    }
}
