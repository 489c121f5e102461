//! Configurations: of a whole model, of its stacks and of their parts.

mod choices;
mod limits;
mod parts;
mod stacks;
mod transformer;

pub use self::choices::{
    Activation, NormKind, NormPlacement, NormVariance, Positions, WeightTying,
};
pub use self::parts::{
    AttentionConfig, FeedForwardConfig, GeneratorConfig, InputConfig, LayerConfig, NormConfig,
    PositionConfig,
};
pub use self::stacks::{DecoderConfig, EncoderConfig};
pub use self::transformer::TransformerConfig;
