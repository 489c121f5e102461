//! Generation by this crate's models. It never drops out, whatever the device of the model.

use burn::tensor::Device;

use super::config::{GenerateConfig, LengthLimit};
use super::decoder_session::DecoderSession;
use super::error::GenerateError;
use super::hypothesis::Hypothesis;
use super::search::Search;
use crate::decoder::Decoder;
use crate::dropout::without_dropout;
use crate::error::{ConfigError, InputError};
use crate::mask::AttentionMask;
use crate::memory::Memory;
use crate::model::Transformer;
use crate::sequence::{check_sequences, pad_sequences};

/// A running generation by a decoder: an iterator over its steps.
pub type Generation<'a> = Search<DecoderSession<'a>>;

impl Decoder {
    /// Continues prompts: with a memory as the decoder of a whole model does, without one as a
    /// language model does.
    ///
    /// The begin symbol, if there is one, precedes every prompt. Returns up to `n_best` hypotheses
    /// for each prompt, the best first; their tokens begin with the prompt, which counts for
    /// `max_length`; `max_new_tokens` limits what follows it. Prompts are read in one pass, as far as
    /// the shortest of them reaches. The decoder never drops out, but a memory that was computed on a
    /// device with autodiff may have: encode with [`valid`](burn::module::Module::valid).
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use transformer::generate::GenerateConfig;
    /// use transformer::{Memory, TransformerConfig};
    ///
    /// let device = Device::flex();
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    ///
    /// let language_model = config.decoder().with_cross_attention(false).init(&device)?;
    /// let prompts = [vec![5, 6], vec![7]];
    /// let hypotheses = language_model.complete(None, &prompts, &GenerateConfig::new(8))?;
    /// assert_eq!(hypotheses[0][0].tokens[..2], [5, 6]);
    /// assert_eq!(hypotheses[1][0].tokens.len(), 8);
    ///
    /// // The memory of one source: three vectors of an encoder of your own.
    /// let decoder = config.decoder().init(&device)?;
    /// let memory = Memory::from(Tensor::<3>::ones([1, 3, 16], &device));
    /// let search = GenerateConfig::new(8).with_bos_id(Some(1));
    /// let hypotheses = decoder.complete(&memory, &[[]], &search)?;
    /// assert_eq!(hypotheses[0][0].tokens.len(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A setting is not valid, there is no prompt, a prompt is empty and there is no begin symbol,
    /// the decoder cannot process a prompt, or its logits are not finite.
    ///
    /// # Panics
    ///
    /// If a decoder with cross-attention gets no memory, or a decoder without it gets a memory, or
    /// the memory has not one source for each prompt.
    pub fn complete<'a>(
        &self,
        memory: impl Into<Option<&'a Memory>>,
        prompts: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        let prompts: Vec<&[u32]> = prompts.iter().map(AsRef::as_ref).collect();
        let (memory, device) = (memory.into(), self.input.table().device());
        fused::in_pool(&device, || self.stream(memory, &prompts, config)?.run())
    }

    /// Continues prompts as [`complete`](Self::complete) does, but returns an iterator over the
    /// steps.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    /// use transformer::generate::{GenerateConfig, GenerateError};
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.decoder().with_cross_attention(false).init(&Device::flex())?;
    ///
    /// // The steps begin with the tokens of the prompt.
    /// let mut steps = model.stream(None, &[[5, 6]], &GenerateConfig::new(8))?;
    /// let tokens: Result<Vec<u32>, _> =
    ///     steps.by_ref().take(3).map(|step| Ok::<_, GenerateError>(step?[0].token)).collect();
    /// let tokens = tokens?;
    /// assert_eq!(tokens[..2], [5, 6]);
    /// // A generation can be stopped after any step.
    /// let hypotheses = steps.stop();
    /// assert_eq!(hypotheses[0][0].tokens, tokens);
    /// assert_eq!(hypotheses[0][0].end_id, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`complete`](Self::complete). Logits that are not finite are reported later,
    /// by the step that computes them.
    ///
    /// # Panics
    ///
    /// In the same cases as [`complete`](Self::complete).
    pub fn stream<'a>(
        &self,
        memory: impl Into<Option<&'a Memory>>,
        prompts: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        let memory: Option<&Memory> = memory.into();
        if let Some(LengthLimit { per_token, more }) = config.length_limit {
            let value = format!("{per_token} tokens for each of the source and {more} more");
            let expected = "none for prompts, which max_new_tokens limits";
            return Err(ConfigError::new("length_limit", value, expected).into());
        }
        let prompts = prompts.iter().map(|prompt| prompt.as_ref().to_vec());
        let config = GenerateConfig {
            count_prefix: config.count_prefix && memory.is_some(),
            ..config.clone()
        };
        self.search(memory.cloned(), prompts.collect(), &config)
    }

    /// Begins a search with one prefix per source.
    fn search(
        &self,
        memory: Option<Memory>,
        prefixes: Vec<Vec<u32>>,
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        match (self.config().cross_attention, &memory) {
            (true, None) => panic!("this decoder has cross-attention and needs a memory"),
            (false, Some(_)) => panic!("this decoder has no cross-attention and takes no memory"),
            _ => {}
        }
        if let Some(memory) = &memory {
            let (sources, prompts) = (memory.states.dims()[0], prefixes.len());
            assert_eq!(
                sources, prompts,
                "the memory has {sources} sources, but there are {prompts} prompts"
            );
        }
        let mut config = config.clone();
        if let Some(max_len) = self.max_len()
            && config.max_length > max_len
        {
            let expected = format!("at most the model's max_len ({max_len})");
            if config.max_new_tokens.is_none() {
                return Err(ConfigError::new("max_length", config.max_length, expected).into());
            }
            if let Some(sequence) = prefixes.iter().position(|prefix| prefix.len() >= max_len) {
                // One more for a new token.
                let length = prefixes[sequence].len() + 1;
                return Err(InputError::TooLong {
                    sequence,
                    length,
                    max_len,
                }
                .into());
            }
            config.max_length = max_len;
        }
        let max_rows = prefixes.len().saturating_mul(config.rows_per_source());
        let session = DecoderSession::new(self, memory, max_rows, config.max_length);
        Search::new(session, prefixes, config)
    }
}

impl Transformer {
    /// Generates targets for a batch of sources.
    ///
    /// Returns up to `n_best` hypotheses per source, best first.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    /// use transformer::generate::{GenerateConfig, LengthPenalty, Method};
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    ///
    /// // Targets begin after token 1, and end with token 2 or at their maximum length.
    /// let beam = Method::Beam { width: 4, length_penalty: LengthPenalty::Gnmt { alpha: 0.6 } };
    /// let config = GenerateConfig::new(12).with_bos_id(Some(1)).with_eos_id(Some(2));
    /// let config = config.with_method(beam);
    /// let hypotheses = model.generate(&[vec![5, 6, 7], vec![8, 9]], &config)?;
    /// assert_eq!(hypotheses.len(), 2);
    /// assert!(hypotheses[0][0].tokens.len() <= 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A setting is not valid, there is no source, the model cannot process a source, or its logits
    /// are not finite.
    pub fn generate(
        &self,
        sources: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        self.complete(sources, &vec![[]; sources.len()], config)
    }

    /// Generates targets that begin with given prefixes.
    ///
    /// The targets of source `i` begin with `prefixes[i]`, which may be empty. Returns up to
    /// `n_best` hypotheses per source, best first.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    /// use transformer::generate::GenerateConfig;
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    ///
    /// let (sources, prefixes) = ([[5, 6, 7]], [[9, 10]]);
    /// let config = GenerateConfig::new(12).with_bos_id(Some(1));
    /// let hypotheses = model.complete(&sources, &prefixes, &config)?;
    /// assert_eq!(hypotheses[0][0].tokens[..2], [9, 10]);
    /// assert_eq!(hypotheses[0][0].tokens.len(), 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`generate`](Self::generate), or a prefix is longer than `max_length` or has a
    /// token that is not in the vocabulary.
    ///
    /// # Panics
    ///
    /// If the numbers of sources and prefixes differ.
    pub fn complete(
        &self,
        sources: &[impl AsRef<[u32]>],
        prefixes: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Vec<Vec<Hypothesis>>, GenerateError> {
        let sources: Vec<&[u32]> = sources.iter().map(AsRef::as_ref).collect();
        let prefixes: Vec<&[u32]> = prefixes.iter().map(AsRef::as_ref).collect();
        fused::in_pool(&self.device(), || {
            self.stream_completion(&sources, &prefixes, config)?.run()
        })
    }

    /// Generates targets as [`generate`](Self::generate) does, but returns an iterator over the
    /// steps.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    /// use transformer::generate::GenerateConfig;
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    ///
    /// let mut tokens = Vec::new();
    /// let config = GenerateConfig::new(12).with_bos_id(Some(1));
    /// for step in model.stream(&[[5, 6, 7]], &config)? {
    ///     tokens.push(step?[0].token); // one row: print the token as it comes
    /// }
    /// let hypotheses = model.generate(&[[5, 6, 7]], &config)?;
    /// assert_eq!(hypotheses[0][0].tokens, tokens);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`generate`](Self::generate). Logits that are not finite are reported later,
    /// by the step that computes them.
    pub fn stream(
        &self,
        sources: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        let prefixes = vec![Vec::new(); sources.len()];
        self.begin(sources, prefixes, config)
    }

    /// Generates targets as [`complete`](Self::complete) does, but returns an iterator over the
    /// steps.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    /// use transformer::generate::GenerateConfig;
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
    /// let model = config.init_seeded(1, &Device::flex())?;
    ///
    /// // Each step has one token for each source; the steps begin with the tokens of the prefixes.
    /// let (sources, prefixes) = ([vec![5, 6, 7], vec![8]], [[9, 10], [11, 12]]);
    /// let config = GenerateConfig::new(6).with_bos_id(Some(1));
    /// let mut targets = [Vec::new(), Vec::new()];
    /// for step in model.stream_completion(&sources, &prefixes, &config)? {
    ///     for token in step? {
    ///         targets[token.source].push(token.token);
    ///     }
    /// }
    /// assert!(targets[0].starts_with(&[9, 10]) && targets[1].starts_with(&[11, 12]));
    /// let hypotheses = model.complete(&sources, &prefixes, &config)?;
    /// assert_eq!(hypotheses[1][0].tokens, targets[1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`complete`](Self::complete). Logits that are not finite are reported later,
    /// by the step that computes them.
    ///
    /// # Panics
    ///
    /// If the numbers of sources and prefixes differ.
    pub fn stream_completion(
        &self,
        sources: &[impl AsRef<[u32]>],
        prefixes: &[impl AsRef<[u32]>],
        config: &GenerateConfig,
    ) -> Result<Generation<'_>, GenerateError> {
        let prefixes = prefixes.iter().map(|prefix| prefix.as_ref().to_vec());
        self.begin(sources, prefixes.collect(), config)
    }

    /// Begins a search. If `config` has a `length_limit`, each source gets its own maximum length.
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
        let memory = without_dropout(self, &self.device()).encode_checked(sources)?;
        let Some(limit) = config.length_limit else {
            return self.decoder.search(Some(memory), prefixes, config);
        };
        let limits = sources.iter().map(|source| limit.of(source.as_ref().len()));
        let limits: Vec<usize> = limits.collect();
        let longest_prefix = prefixes.iter().map(Vec::len).max().unwrap_or(0);
        let longest = limits.iter().copied().max().unwrap_or(0);
        let least = longest_prefix.saturating_add(config.min_new_tokens.max(1));
        let least = config.min_length.max(least);
        let config = GenerateConfig {
            max_length: longest.max(least).min(config.max_length),
            ..config.clone()
        };
        let search = self.decoder.search(Some(memory), prefixes, &config)?;
        Ok(search.with_max_lengths(limits))
    }

    /// Checks the sources, encodes them and returns the memory.
    ///
    /// # Errors
    ///
    /// `sources` is empty, or the model cannot process a source.
    pub(super) fn encode_checked(
        &self,
        sources: &[impl AsRef<[u32]>],
    ) -> Result<Memory, InputError> {
        let max_len = self.encoder.max_len().unwrap_or(usize::MAX);
        check_sequences(sources, self.source_vocab_size(), max_len)?;
        let lengths: Vec<usize> = sources.iter().map(|source| source.as_ref().len()).collect();
        let mask = AttentionMask::of_lengths(&lengths, &self.device());
        let sources = pad_sequences(sources, 0, &self.device());
        Ok(self.encode(sources, Some(&mask)))
    }

    pub(super) fn device(&self) -> Device {
        self.decoder.input.table().device()
    }
}
