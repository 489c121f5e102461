//! Options of cross-entropy: padding and label smoothing.

#[derive(Clone, Copy, Debug)]
pub(crate) struct LossOptions {
    /// Id of padding. Rows with this target have a loss of 0.
    pub pad_id: u32,
    /// Label smoothing `ε`: the share of the target distribution that is spread evenly over all
    /// ids.
    pub smoothing: f64,
}
