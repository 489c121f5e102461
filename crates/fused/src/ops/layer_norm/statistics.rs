//! The settings of layer norm: epsilon, and whether the mean is subtracted.

/// How a row is normalised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statistics {
    /// Number that is added to the variance, or to the mean square.
    pub epsilon: f64,
    /// `true` subtracts the mean of the row. `false` only divides the row by its root mean square.
    pub is_centred: bool,
}
