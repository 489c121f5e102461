//! The activation functions.

/// An activation function. `Glu`, `Geglu` and `Swiglu` are gated: they split a row into
/// `[gate, value]` and return `act(gate) * value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GELU: `x Φ(x)`, computed with the error function.
    Gelu,
    /// Swish: `x σ(x)`.
    Swish,
    /// GLU, which is gated by the sigmoid `σ(x)`.
    Glu,
    /// GEGLU, which is gated by GELU.
    Geglu,
    /// SwiGLU, which is gated by Swish.
    Swiglu,
}

impl Activation {
    /// Returns whether the function is gated. A gated function halves the last axis.
    pub fn is_gated(self) -> bool {
        matches!(self, Self::Glu | Self::Geglu | Self::Swiglu)
    }
}
