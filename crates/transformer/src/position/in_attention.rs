//! The positional encodings that act in self-attention.

use burn::module::Module;
use burn::tensor::Tensor;

use super::alibi::Alibi;
use super::relative::RelativeBias;
use super::rotary::{RotaryEncoding, Rotation};
use super::table::NO_TOKENS;
use crate::config::{AttentionConfig, PositionConfig, Positions};
use crate::init::Init;

/// A positional encoding that acts in the self-attention of a stack: rotary, relative or ALiBi.
///
/// [`forward`](Self::forward) returns what each layer of the stack takes.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use transformer::LayerConfig;
/// use transformer::position::{AttentionPosition, RotaryEncoding};
///
/// // A stack of one's own: two layers of four heads of width 8, with rotary positions.
/// let device = Device::flex();
/// let config = LayerConfig::new(32, 64, 4);
/// let layers = [config.init_encoder_layer(&device)?, config.init_encoder_layer(&device)?];
/// let positions = AttentionPosition::from(RotaryEncoding::new(100, 8, 10_000.0, &device));
///
/// let x = Tensor::random([2, 5, 32], Distribution::Default, &device);
/// let position = positions.forward(0, 5);
/// let y = layers.iter().fold(x, |x, layer| layer.forward(x, None, Some(&position)));
/// assert_eq!(y.dims(), [2, 5, 32]);
/// # Ok::<(), transformer::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct AttentionPosition {
    rotary: Option<RotaryEncoding>,
    relative: Option<RelativeBias>,
    alibi: Option<Alibi>,
}

impl From<RotaryEncoding> for AttentionPosition {
    fn from(rotary: RotaryEncoding) -> Self {
        Self {
            rotary: Some(rotary),
            relative: None,
            alibi: None,
        }
    }
}

impl From<RelativeBias> for AttentionPosition {
    fn from(relative: RelativeBias) -> Self {
        Self {
            rotary: None,
            relative: Some(relative),
            alibi: None,
        }
    }
}

impl From<Alibi> for AttentionPosition {
    fn from(alibi: Alibi) -> Self {
        Self {
            rotary: None,
            relative: None,
            alibi: Some(alibi),
        }
    }
}

impl AttentionPosition {
    /// Builds the configured encoding; `None` if it does not act in self-attention.
    pub(crate) fn build(
        config: &PositionConfig,
        attention: &AttentionConfig,
        is_causal: bool,
        init: &mut Init,
    ) -> Option<Self> {
        let n_heads = attention.n_heads;
        match config.kind {
            Positions::Rotary => {
                let d_head = attention.d_head();
                Some(
                    RotaryEncoding::new(config.max_len, d_head, config.rotary_base, init.device())
                        .into(),
                )
            }
            Positions::Relative => {
                Some(RelativeBias::build(config, n_heads, is_causal, init).into())
            }
            Positions::Alibi => Some(Alibi::new(n_heads, init.device()).into()),
            Positions::Sinusoidal
            | Positions::SinusoidalHalves
            | Positions::SinusoidalFairseq
            | Positions::Learned
            | Positions::None => None,
        }
    }

    /// Returns the encoding of `length` tokens after `past` earlier ones, which all layers share.
    ///
    /// # Panics
    ///
    /// If `length` is 0, or positions are rotary and `past + length` exceeds `max_len`.
    pub fn forward(&self, past: usize, length: usize) -> PositionTerm {
        assert!(length > 0, "{NO_TOKENS}");
        match (&self.rotary, &self.relative, &self.alibi) {
            (Some(rotary), ..) => PositionTerm::Rotation(rotary.forward(past, length)),
            (_, Some(relative), _) => PositionTerm::Bias(relative.forward(past, length)),
            (.., Some(alibi)) => PositionTerm::Bias(alibi.forward(past, length)),
            (None, None, None) => unreachable!("an encoding is one of the three"),
        }
    }

    /// Returns the same encoding of up to `max_len` positions.
    pub(crate) fn lengthened(self, max_len: usize) -> Self {
        Self {
            rotary: self.rotary.map(|rotary| rotary.lengthened(max_len)),
            ..self
        }
    }

    /// Returns the maximum sequence length, in tokens; `None` if any length is possible.
    pub(super) fn max_len(&self) -> Option<usize> {
        self.rotary.as_ref().map(RotaryEncoding::max_len)
    }
}

/// The effect of a positional encoding on self-attention, which is the same in all layers.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // A pass has only one, so its size does not matter.
#[non_exhaustive]
pub enum PositionTerm {
    /// Rotation of queries and keys.
    Rotation(Rotation),
    /// Biases that are added to the scores of `T` queries and `L` keys, `[1, H, T, L]`.
    Bias(Tensor<4>),
}
