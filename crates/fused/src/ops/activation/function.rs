//! The activation functions.

/// An activation function. The last three are gated: they split a row into `[gate, value]` and
/// return `act(gate) * value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Φ(x)`, computed with the error function.
    Gelu,
    /// `x σ(x)`.
    Swish,
    /// Gated by the sigmoid `σ(x)`.
    Glu,
    /// Gated by GELU.
    Geglu,
    /// Gated by Swish.
    Swiglu,
}

impl Activation {
    /// Returns whether the function is gated, and so halves the last axis.
    pub fn is_gated(self) -> bool {
        matches!(self, Self::Glu | Self::Geglu | Self::Swiglu)
    }
}
