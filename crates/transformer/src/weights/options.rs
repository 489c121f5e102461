//! The options of an import.

use super::layout::Layout;
use crate::config::{Activation, NormPlacement, NormVariance, Positions, WeightTying};

/// Hyper-parameters that weights do not show, and how to read the file.
///
/// Sizes and numbers of layers are read from the shapes of the tensors. The number of attention
/// heads must be given unless the file has this crate's [`metadata`](super::metadata()). Other
/// fields that are `None` have the layout's usual value.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // fields without docs are those of `TransformerConfig` with the same names
pub struct ImportOptions {
    /// Layout of the file; `None` recognises it by the names of the tensors.
    pub layout: Option<Layout>,
    pub n_heads: Option<usize>,
    pub activation: Option<Activation>,
    pub norm_placement: Option<NormPlacement>,
    pub norm_variance: Option<NormVariance>,
    pub norm_epsilon: Option<f64>,
    pub positions: Option<Positions>,
    pub max_len: Option<usize>,
    pub scale_embeddings: Option<bool>,
    pub weight_tying: Option<WeightTying>,
    pub pad_id: Option<u32>,
    pub dropout: Option<f64>,
    /// Entry of the file's outermost dictionary that holds the weights; `None` chooses it, if only
    /// one is possible.
    pub entry: Option<String>,
    /// Tensors to rename: pairs of the name in the file and the name in the layout, both without
    /// the name of the entry.
    pub rename: Vec<(String, String)>,
    /// Whether to skip tensors that the model does not have, and objects that are not tensors.
    pub allow_unused: bool,
}
