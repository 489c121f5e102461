//! A decoder as a model that a search runs.

use std::borrow::Cow;

use burn::tensor::Device;

use super::autoregressive::Autoregressive;
use crate::decoder::Decoder;
use crate::dropout::without_dropout;
use crate::init::compiles_kernels;
use crate::memory::{DecoderCache, Memory};
use crate::sequence::pad_sequences;

/// A decoder, the memory of the sources, and the cache of the targets that it decodes.
#[derive(Debug)]
pub struct DecoderSession<'a> {
    decoder: Cow<'a, Decoder>,
    memory: Option<Memory>,
    cache: DecoderCache,
    device: Device,
    /// Number of targets in the latest step, those that only fill it up included.
    rows: usize,
    /// Whether steps are filled up, so that few numbers of targets occur.
    fills_up: bool,
}

impl<'a> DecoderSession<'a> {
    /// Creates a session with an empty cache.
    ///
    /// `memory` is `None` for a decoder without cross-attention. On a device with autodiff, the
    /// session uses the decoder and the memory without it. The cache is made for `max_rows` targets
    /// of `max_length` tokens each, and grows if there are more.
    pub fn new(
        decoder: &'a Decoder,
        memory: Option<Memory>,
        max_rows: usize,
        max_length: usize,
    ) -> Self {
        let device = decoder.input.table().device();
        let decoder = without_dropout(decoder, &device);
        let device = decoder.input.table().device();
        Self {
            memory: memory.map(Memory::inner),
            cache: decoder.new_cache_with_capacity(max_rows, max_length),
            fills_up: compiles_kernels(&device),
            rows: 0,
            device,
            decoder,
        }
    }

    /// Returns the targets of the latest step that fill up a step of targets with these `parents`.
    ///
    /// A device that compiles kernels may compile and tune some for each new number of targets. While
    /// more and more targets end, their number is therefore rounded up to a power of two. Ended
    /// targets do this, because these have sources that no others need.
    fn fillers(&self, parents: &[usize]) -> Vec<usize> {
        let rows = parents.len().next_power_of_two().min(self.rows);
        let ended = (0..self.rows).filter(|row| !parents.contains(row));
        let missing = rows.saturating_sub(parents.len());
        ended
            .take(if self.fills_up { missing } else { 0 })
            .collect()
    }
}

impl Autoregressive for DecoderSession<'_> {
    fn vocab_size(&self) -> usize {
        self.decoder.vocab_size()
    }

    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
        let tokens: Vec<&[u32]> = tokens.chunks(1).collect();
        self.read(parents, &tokens)
    }

    fn read(&mut self, parents: &[usize], tokens: &[&[u32]]) -> Vec<f32> {
        let device = self.device.clone();
        fused::in_pool(&device, || {
            let fillers = self.fillers(parents);
            let n_logits = parents.len() * self.vocab_size();
            let any = vec![tokens[0]; fillers.len()];
            let (parents, tokens) = ([parents, &fillers].concat(), [tokens, &any].concat());
            self.rows = parents.len();
            self.cache.branch(&parents);
            let ids = pad_sequences(&tokens, 0, &self.device);
            let length = ids.dims()[1];
            let memory = self.memory.as_ref();
            let mut states = self.decoder.forward_states(ids, memory, &mut self.cache);
            if length > 1 {
                states = states.narrow(1, length - 1, 1);
            }
            let logits = self.decoder.logits(states).into_data().convert::<f32>();
            let mut logits: Vec<f32> = logits
                .try_into_vec()
                .expect("the logits were converted to f32");
            logits.truncate(n_logits);
            logits
        })
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use crate::config::TransformerConfig;
    use crate::generate::{GenerateConfig, LengthPenalty, Method, Search};

    #[test]
    fn steps_that_are_filled_up_have_the_same_targets() {
        let device = Device::flex();
        let config = TransformerConfig::new(12, 12)
            .with_d_model(16)
            .with_n_heads(2);
        let model = config.init_seeded(3, &device).unwrap();
        let sources: Vec<Vec<u32>> = (0..7).map(|n| (3..6 + n % 5).collect()).collect();
        let memory = model.encode_checked(&sources).unwrap();
        let beam = Method::Beam {
            width: 3,
            length_penalty: LengthPenalty::None,
        };
        for method in [Method::Greedy, beam] {
            let config = GenerateConfig::new(9)
                .with_bos_id(Some(1))
                .with_method(method);
            // Each of these ids ends some targets early.
            for eos in 0..12 {
                let config = config.clone().with_eos_id(Some(eos));
                let run = |fills_up| {
                    let rows = sources.len() * config.rows_per_source();
                    let memory = Some(memory.clone());
                    let mut session = DecoderSession::new(&model.decoder, memory, rows, 9);
                    session.fills_up = fills_up;
                    let prefixes = vec![Vec::new(); sources.len()];
                    let search = Search::new(session, prefixes, config.clone()).unwrap();
                    let found = search.run().unwrap().concat();
                    found.into_iter().map(|it| it.tokens).collect::<Vec<_>>()
                };
                assert_eq!(run(true), run(false), "{eos}");
            }
        }
    }

    #[test]
    fn ended_targets_fill_a_step_up_to_a_power_of_two() {
        let device = Device::flex();
        let config = TransformerConfig::new(5, 5).with_d_model(4).with_n_heads(1);
        let decoder = config.decoder().with_cross_attention(false);
        let decoder = decoder.init(&device).unwrap();
        let mut session = DecoderSession::new(&decoder, None, 7, 9);
        assert!(!session.fills_up);
        (session.fills_up, session.rows) = (true, 7);
        assert_eq!(session.fillers(&[0, 2, 5]), [1]);
        assert_eq!(session.fillers(&[0, 0, 0, 6, 6]), [1, 2]);
        assert_eq!(session.fillers(&[3, 4]), [0; 0]);
        // A beam grows in its second step.
        session.rows = 2;
        assert_eq!(session.fillers(&[0, 0, 0, 1, 1]), [0; 0]);
    }
}
