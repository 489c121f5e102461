//! How a row is normalised.

/// How a row is normalised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statistics {
    /// Number that is added to the variance, or to the mean square.
    pub epsilon: f64,
    /// Whether the mean is subtracted. Without it, the row is divided by its root mean square.
    pub is_centred: bool,
}
