//! The activation functions.

/// An activation function.
///
/// `Glu`, `Geglu`, `GegluTanh` and `Swiglu` are gated: they split each row into `[gate, value]` and
/// return `act(gate) * value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GELU: `x Φ(x)`, computed with the error function.
    Gelu,
    /// The tanh approximation of GELU: `x (1 + tanh(u)) / 2` with
    /// `u = sqrt(2 / π) (x + 0.044715 x³)`.
    GeluTanh,
    /// Swish: `x σ(x)`.
    Swish,
    /// GLU, which is gated by the sigmoid `σ(x)`.
    Glu,
    /// GEGLU, which is gated by GELU.
    Geglu,
    /// GEGLU, which is gated by the tanh approximation of GELU (see `GeluTanh`).
    GegluTanh,
    /// SwiGLU, which is gated by Swish.
    Swiglu,
}

impl Activation {
    /// Returns whether the function is gated. A gated function halves the last axis.
    pub fn is_gated(self) -> bool {
        matches!(
            self,
            Self::Glu | Self::Geglu | Self::GegluTanh | Self::Swiglu
        )
    }
}

/// `2 sqrt(2 / π)`.
const FACTOR: f64 = 1.595_769_121_605_730_7;

/// The coefficient of `x³` in `u = sqrt(2 / π) (x + 0.044715 x³)`, the argument of tanh in the tanh
/// approximation of GELU.
const CUBIC: f64 = 0.044_715;

/// Coefficients `[a, b]` of `2 u = a x + b x³`, the argument of the sigmoid `σ` in the tanh
/// approximation of GELU. Since `(1 + tanh(u)) / 2 = σ(2 u)`, the approximation
/// `x (1 + tanh(u)) / 2` equals `x σ(2 u)`.
pub(super) const ARGUMENT: [f64; 2] = [FACTOR, FACTOR * CUBIC];
