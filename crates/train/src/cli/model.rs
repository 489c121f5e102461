//! The model's own choices, as flags: the model crate knows no command line.

use clap::ValueEnum;
use transformer::{Activation, NormPlacement, Positions, WeightTying};

/// Where the norms stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Norm {
    /// After the residual sum, as in the paper
    Post,
    /// Before the sublayer
    Pre,
}

/// How positions enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PositionKind {
    /// Fixed sines and cosines
    Sinusoidal,
    /// The same, all sines before all cosines
    SinusoidalHalves,
    /// A trained table
    Learned,
    /// Rotated queries and keys
    Rotary,
    /// None
    None,
}

/// The feed-forward network's non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)] // their names say it
pub enum ActivationKind {
    Relu,
    Gelu,
    Swish,
    Glu,
    Geglu,
    Swiglu,
}

/// Shared vocabulary matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tying {
    /// None
    None,
    /// The decoder's embedding and the generator
    Decoder,
    /// Both embeddings and the generator
    All,
}

impl From<Norm> for NormPlacement {
    fn from(norm: Norm) -> Self {
        match norm {
            Norm::Post => Self::Post,
            Norm::Pre => Self::Pre,
        }
    }
}

impl From<PositionKind> for Positions {
    fn from(kind: PositionKind) -> Self {
        match kind {
            PositionKind::Sinusoidal => Self::Sinusoidal,
            PositionKind::SinusoidalHalves => Self::SinusoidalHalves,
            PositionKind::Learned => Self::Learned,
            PositionKind::Rotary => Self::Rotary,
            PositionKind::None => Self::None,
        }
    }
}

impl From<ActivationKind> for Activation {
    fn from(kind: ActivationKind) -> Self {
        match kind {
            ActivationKind::Relu => Self::Relu,
            ActivationKind::Gelu => Self::Gelu,
            ActivationKind::Swish => Self::Swish,
            ActivationKind::Glu => Self::Glu,
            ActivationKind::Geglu => Self::Geglu,
            ActivationKind::Swiglu => Self::Swiglu,
        }
    }
}

impl From<Tying> for WeightTying {
    fn from(tying: Tying) -> Self {
        match tying {
            Tying::None => Self::None,
            Tying::Decoder => Self::Decoder,
            Tying::All => Self::All,
        }
    }
}
