//! One layer of the decoder (paper, section 3.1).

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::attention::{CrossAttention, SelfAttention};
use crate::config::LayerConfig;
use crate::error::ConfigError;
use crate::feed_forward::FeedForward;
use crate::init::Init;
use crate::mask::AttentionMask;
use crate::memory::{DecoderPass, LayerCache, Memory};
use crate::position::PositionTerm;
use crate::residual::{Residual, Stream};
use crate::trace::LayerTrace;

/// One decoder layer: self-attention, cross-attention and feed-forward network, each in a residual
/// block.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    /// First sublayer.
    pub self_attention: SelfAttention,
    /// Residual block of the first sublayer.
    pub self_attention_residual: Residual,
    /// Second sublayer; `None` in a decoder without cross-attention.
    pub cross_attention: Option<CrossAttention>,
    /// Residual block of the second sublayer; `None` in a decoder without cross-attention.
    pub cross_attention_residual: Option<Residual>,
    /// Last sublayer.
    pub feed_forward: FeedForward,
    /// Residual block of the last sublayer.
    pub feed_forward_residual: Residual,
}

impl LayerConfig {
    /// Builds one decoder layer, with or without cross-attention.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_decoder_layer(
        &self,
        cross_attention: bool,
        device: &Device,
    ) -> Result<DecoderLayer, ConfigError> {
        self.validate()?;
        Ok(DecoderLayer::build(
            self,
            cross_attention,
            &mut Init::new(device),
        ))
    }
}

impl DecoderLayer {
    pub(super) fn build(config: &LayerConfig, cross_attention: bool, init: &mut Init) -> Self {
        let self_attention = SelfAttention::build(&config.attention, init);
        let cross_attention =
            cross_attention.then(|| CrossAttention::build(&config.attention, init));
        let residual = || Residual::build(config, init.device());
        let residuals = [residual(), residual()];
        let cross_attention_residual = cross_attention.is_some().then(residual);
        let [self_attention_residual, feed_forward_residual] = residuals;
        Self {
            self_attention,
            self_attention_residual,
            cross_attention,
            cross_attention_residual,
            feed_forward: FeedForward::build(&config.feed_forward, init),
            feed_forward_residual,
        }
    }

    /// Runs the layer on the next tokens of each target, which attend to the tokens in the cache
    /// and to each other. With a new cache, these are whole targets.
    ///
    /// In the shapes, `L` is the number of tokens in the cache afterwards.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, L]`, `true` = blocked; for several tokens usually
    ///   [`AttentionMask::causal_after`]; `None` lets a token attend to later ones
    /// - position: that of `T` tokens after `L - T` earlier ones, from
    ///   [`AttentionPosition::forward`](crate::position::AttentionPosition::forward); `None`
    ///   without positions in attention
    /// - memory: states `[B, S, D]`, or `[N, S, D]` for `N` sources after [`LayerCache::branch`];
    ///   `None` for a layer without cross-attention
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If a layer with cross-attention gets no memory, a layer without it gets a memory, the memory
    /// does not have `B` sources and targets have not branched, `B` is not that of earlier calls with the
    /// cache, the memory is neither that of earlier calls nor a clone of it, or the cache has tokens of
    /// another layer.
    pub fn forward<'a>(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
        memory: impl Into<Option<&'a Memory>>,
        cache: &mut LayerCache,
    ) -> Tensor<3> {
        cache.self_attention.check_targets(x.dims()[0]);
        let memory = memory.into();
        let step = DecoderPass {
            mask,
            position,
            index: cache.index(memory),
        };
        self.run(x.into(), &step, memory, cache, None).sum()
    }

    pub(super) fn run(
        &self,
        stream: Stream,
        step: &DecoderPass<'_>,
        memory: Option<&Memory>,
        cache: &mut LayerCache,
        trace: Option<&mut Vec<LayerTrace>>,
    ) -> Stream {
        let keep = trace.is_some();
        let (mut self_weights, mut cross_weights) = (None, None);
        let mut feed_forward_input = None;
        let mut stream = self.self_attention_residual.run(stream, |x| {
            let past = Some((&mut cache.self_attention, &step.index));
            let attention = &self.self_attention;
            let (y, weights) = attention.run(x, step.mask, step.position, past, keep);
            self_weights = weights;
            y
        });
        stream = match (
            &self.cross_attention,
            &self.cross_attention_residual,
            memory,
        ) {
            (Some(attention), Some(residual), Some(memory)) => residual.run(stream, |x| {
                let projected = cache.project(attention, memory, x.dims()[0], &step.index);
                let mask = memory.mask.as_ref();
                let sources = step.index.sources.as_ref();
                let (y, weights) = attention.run(x, projected, mask, sources, keep);
                cross_weights = weights;
                y
            }),
            (None, None, None) => stream,
            (_, _, None) => panic!("this decoder has cross-attention and needs a memory"),
            _ => panic!("this decoder has no cross-attention and takes no memory"),
        };
        let stream = self.feed_forward_residual.run(stream, |x| {
            feed_forward_input = keep.then(|| x.clone());
            self.feed_forward.forward(x)
        });
        if let Some(trace) = trace {
            trace.push(LayerTrace {
                self_attention: self_weights.expect("a traced pass keeps the weights"),
                cross_attention: cross_weights,
                feed_forward_input: feed_forward_input.expect("a traced pass keeps the input"),
            });
        }
        stream
    }
}
