//! The Transformer as burn-nn's own modules build it, with pre-norm and dropout 0.1.

use burn::module::Module;
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::transformer::{
    TransformerDecoder, TransformerDecoderConfig, TransformerDecoderInput, TransformerEncoder,
    TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
    PositionalEncoding, PositionalEncodingConfig,
};
use burn::tensor::{Device, Int, Tensor};

#[derive(Module, Debug)]
pub struct Model {
    source: Embedding,
    target: Embedding,
    positions: PositionalEncoding,
    encoder: TransformerEncoder,
    encoder_norm: LayerNorm,
    decoder: TransformerDecoder,
    decoder_norm: LayerNorm,
    generator: Linear,
}

impl Model {
    /// Creates the model with `vocab_size` tokens, `d_model`, `n_heads`, `n_layers` in each stack, and
    /// `d_ff`.
    pub fn new(
        [vocab_size, d_model, n_heads, n_layers, d_ff]: [usize; 5],
        device: &Device,
    ) -> Self {
        Self {
            source: EmbeddingConfig::new(vocab_size, d_model).init(device),
            target: EmbeddingConfig::new(vocab_size, d_model).init(device),
            positions: PositionalEncodingConfig::new(d_model).init(device),
            encoder: TransformerEncoderConfig::new(d_model, d_ff, n_heads, n_layers)
                .with_norm_first(true)
                .init(device),
            encoder_norm: LayerNormConfig::new(d_model).init(device),
            decoder: TransformerDecoderConfig::new(d_model, d_ff, n_heads, n_layers)
                .with_norm_first(true)
                .init(device),
            decoder_norm: LayerNormConfig::new(d_model).init(device),
            generator: LinearConfig::new(d_model, vocab_size).init(device),
        }
    }

    /// Returns the logits `[batch, length, vocab_size]` for sources and targets `[batch, length]`.
    pub fn forward(&self, source: Tensor<2, Int>, target: Tensor<2, Int>) -> Tensor<3> {
        let [batch, length] = target.dims();
        let mask = generate_autoregressive_mask(batch, length, &target.device());
        let source = self.positions.forward(self.source.forward(source));
        let target = self.positions.forward(self.target.forward(target));
        let memory = self.encoder.forward(TransformerEncoderInput::new(source));
        let memory = self.encoder_norm.forward(memory);
        let input = TransformerDecoderInput::new(target, memory).target_mask_attn(mask);
        let states = self.decoder_norm.forward(self.decoder.forward(input));
        self.generator.forward(states)
    }
}
