//! What an import has to be told.

use super::layout::Layout;
use crate::config::{Activation, NormPlacement, NormVariance, Positions, WeightTying};

/// What a file's weights do not show, or show otherwise than it is meant.
///
/// Sizes and numbers of layers are read from the shapes. The number of heads must be given, unless
/// the file was written by this crate; everything else has a value that is usual for the layout.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // fields are those of `TransformerConfig`, where they have the same names
pub struct ImportOptions {
    /// The layout, where it is not to be recognised by the names.
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
    /// The entry of the file's outermost dictionary that has the weights, where several could be
    /// meant.
    pub entry: Option<String>,
    /// Tensors by another name than in the file: `(name there, name in the layout)`. Both without
    /// the entry's name.
    pub rename: Vec<(String, String)>,
    /// Whether the file may hold more than the model, and objects that are no tensors.
    pub allow_unused: bool,
}
