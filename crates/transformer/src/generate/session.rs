//! The model as a search sees it.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::Autoregressive;
use super::config::GenerateConfig;
use super::hypothesis::Hypothesis;
use super::search::{GenerateError, Search};
use crate::decoder::Decoder;
use crate::error::{ConfigError, InputError};
use crate::memory::{DecoderCache, Memory};
use crate::model::Transformer;
use crate::sequence::{check_sequences, pad_sequences};

/// A generation by a decoder: an iterator over its steps.
pub type Generation<'a> = Search<DecoderSession<'a>>;

/// A decoder with the memory and the cache of some targets under way.
#[derive(Debug)]
pub struct DecoderSession<'a> {
    decoder: &'a Decoder,
    memory: Option<Memory>,
    cache: DecoderCache,
    device: Device,
}

impl<'a> DecoderSession<'a> {
    /// Begins with a memory, or none for a decoder without cross-attention. The cache's buffers
    /// are allocated once, for `max_rows` targets of `max_length` tokens.
    pub fn new(
        decoder: &'a Decoder,
        memory: Option<Memory>,
        max_rows: usize,
        max_length: usize,
    ) -> Self {
        Self {
            decoder,
            memory,
            cache: decoder.new_cache_with_capacity(max_rows, max_length),
            device: decoder.input.table().device(),
        }
    }
}

impl Autoregressive for DecoderSession<'_> {
    fn vocab_size(&self) -> usize {
        self.decoder.vocab_size()
    }

    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
        self.cache.branch(parents);
        let ids: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
        let ids = TensorData::new(ids, [tokens.len(), 1]);
        let ids = Tensor::<2, Int>::from_data(ids, &self.device);
        let memory = self.memory.as_ref();
        let logits = self.decoder.forward(ids, memory, &mut self.cache);
        let logits = logits.into_data().convert::<f32>();
        logits.try_into_vec().expect("the logits are f32 now")
    }
}

impl Decoder {
    /// Continues prefixes, `bos` before each, by a decoder without cross-attention: a language
    /// model.
    ///
    /// The output has, for each prefix, up to `n_best` hypotheses, best first.
    ///
    /// # Errors
    ///
    /// A wrong setting, or a prefix that the decoder cannot take.
    ///
    /// # Panics
    ///
    /// If the decoder has cross-attention.
    pub fn generate(
        &self,
        prefixes: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        let prefixes: Vec<&[u32]> = prefixes.iter().map(AsRef::as_ref).collect();
        let device = self.input.table().device();
        fused::in_pool(&device, || Ok(self.stream(&prefixes, config)?.run()))
    }

    /// The same, step by step.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate).
    ///
    /// # Panics
    ///
    /// At the first step, if the decoder has cross-attention.
    pub fn stream(
        &self,
        prefixes: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        let prefixes = prefixes.iter().map(|prefix| prefix.as_ref().to_vec());
        self.search(None, prefixes.collect(), config)
    }

    fn search(
        &self,
        memory: Option<Memory>,
        prefixes: Vec<Vec<u32>>,
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        if let Some(max_len) = self.max_len()
            && config.max_length > max_len
        {
            let expected = format!("at most the model's max_len ({max_len})");
            return Err(ConfigError::new("max_length", config.max_length, expected).into());
        }
        let max_rows = prefixes.len() * config.rows_per_source();
        let session = DecoderSession::new(self, memory, max_rows, config.max_length);
        Search::new(session, prefixes, config.clone())
    }
}

impl Transformer {
    /// Makes a target of each source, all of them at once.
    ///
    /// The output has, for each source, up to `n_best` hypotheses, best first.
    ///
    /// # Errors
    ///
    /// A wrong setting, no source at all, or one that the model cannot take.
    pub fn generate(
        &self,
        sources: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        self.complete(sources, &vec![[]; sources.len()], config)
    }

    /// Makes targets that begin with given tokens: completes translations. An empty prefix is
    /// none.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate); also a prefix longer than `max_length`.
    ///
    /// # Panics
    ///
    /// If there is not one prefix for each source.
    pub fn complete(
        &self,
        sources: &[impl AsRef<[u32]>],
        prefixes: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        let sources: Vec<&[u32]> = sources.iter().map(AsRef::as_ref).collect();
        let prefixes: Vec<&[u32]> = prefixes.iter().map(AsRef::as_ref).collect();
        let device = self.decoder.input.table().device();
        fused::in_pool(&device, || {
            Ok(self.stream_completion(&sources, &prefixes, config)?.run())
        })
    }

    /// [`generate`](Self::generate), step by step.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn stream(
        &self,
        sources: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        let prefixes = vec![Vec::new(); sources.len()];
        self.begin(sources, prefixes, config)
    }

    /// [`complete`](Self::complete), step by step.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Panics
    ///
    /// If there is not one prefix for each source.
    pub fn stream_completion(
        &self,
        sources: &[impl AsRef<[u32]>],
        prefixes: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        let prefixes = prefixes.iter().map(|prefix| prefix.as_ref().to_vec());
        self.begin(sources, prefixes.collect(), config)
    }

    fn begin(
        &self,
        sources: &[impl AsRef<[u32]>],
        prefixes: Vec<Vec<u32>>,
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        assert_eq!(
            sources.len(),
            prefixes.len(),
            "there are {} sources, but {} prefixes",
            sources.len(),
            prefixes.len()
        );
        config.validate()?;
        let memory = self.encode_checked(sources)?;
        let Some(limit) = config.length_limit else {
            return self.decoder.search(Some(memory), prefixes, config);
        };
        let limits = sources.iter().map(|source| limit.of(source.as_ref().len()));
        let limits: Vec<usize> = limits.collect();
        let longest_prefix = prefixes.iter().map(Vec::len).max().unwrap_or(0);
        let longest = limits.iter().copied().max().unwrap_or(0);
        let least = config.min_length.max(longest_prefix + 1);
        let config = GenerateConfig {
            max_length: longest.max(least).min(config.max_length),
            ..config.clone()
        };
        let search = self.decoder.search(Some(memory), prefixes, &config)?;
        Ok(search.with_max_lengths(limits))
    }

    /// The memory of sources that come from outside.
    pub(super) fn encode_checked(
        &self,
        sources: &[impl AsRef<[u32]>],
    ) -> Result<Memory, InputError> {
        let max_len = self.encoder.max_len().unwrap_or(usize::MAX);
        check_sequences(sources, self.source_vocab_size(), max_len)?;
        let device = self.decoder.input.table().device();
        Ok(self.encode(pad_sequences(sources, self.pad_id(), &device)))
    }
}
