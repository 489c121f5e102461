//! The activation functions, in plain Burn.

use burn::tensor::Tensor;
use burn::tensor::activation::{self, relu, sigmoid, silu};

/// Declares the functions and the list of all of them, in which none can then be missing.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A function that is applied to each element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function {
            $($(#[$doc])* $name,)*
        }

        impl Function {
            /// All functions.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

functions! {
    /// ReLU: `max(x, 0)`.
    Relu,
    /// The logistic sigmoid `σ(x)`.
    Sigmoid,
    /// Swish, also called SiLU: `x σ(x)`.
    Swish,
    /// GELU: `x Φ(x)`, computed with the error function.
    Gelu,
    /// The tanh approximation of GELU: `x (1 + tanh(u)) / 2` with
    /// `u = sqrt(2 / π) (x + 0.044715 x³)`.
    GeluTanh,
}

/// A function of each element, or a gated one (Shazeer 2020).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The function, or the function of the gate.
    pub function: Function,
    /// Whether each row is split into `[gate, value]`, whose result is `function(gate) * value`. A
    /// gated activation halves the last axis.
    pub is_gated: bool,
}

impl Activation {
    /// Returns every activation: each function with and without gates.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |&function| [false, true].map(|is_gated| Self { function, is_gated });
        Function::ALL.iter().flat_map(of)
    }

    /// Returns the number of columns of the output for an input of `width` columns.
    pub(super) fn columns(self, width: usize) -> usize {
        if self.is_gated { width / 2 } else { width }
    }

    /// Returns the output in plain Burn.
    pub(super) fn plain(self, x: Tensor<2>) -> Tensor<2> {
        if !self.is_gated {
            return self.function.plain(x);
        }
        let half = self.columns(x.dims()[1]);
        let gate = x.clone().narrow(1, 0, half);
        self.function.plain(gate) * x.narrow(1, half, half)
    }
}

impl Function {
    fn plain(self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Relu => relu(x),
            Self::Sigmoid => sigmoid(x),
            Self::Swish => silu(x),
            Self::Gelu => gelu(x),
            Self::GeluTanh => gelu_tanh(x),
        }
    }
}

/// Returns `x Φ(x) = x / 2 (1 + erf(x / sqrt(2)))`.
fn gelu(x: Tensor<2>) -> Tensor<2> {
    if x.is_autodiff() {
        // Burn's own GELU is not used with autodiff: on every backend but flex, its derivative is
        // that of the tanh approximation, which differs by up to 1e-3.
        let erf = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf();
        x * (erf + 1.0) * 0.5
    } else {
        activation::gelu(x)
    }
}

/// Returns the tanh approximation of GELU as `x σ(a x + b x³)`. [`ARGUMENT`] holds `a` and `b`, and
/// says why this equals the form with tanh.
fn gelu_tanh(x: Tensor<2>) -> Tensor<2> {
    let [a, b] = ARGUMENT;
    let square = x.clone() * x.clone();
    sigmoid(x.clone() * (square * b + a)) * x
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
