//! Options of an import.

use serde::Deserialize;

use super::layout::Layout;
use crate::config::{Activation, NormPlacement, NormVariance, Positions, WeightTying};

/// Options of an import: hyper-parameters that weights do not show, and how to read the file.
///
/// The import determines sizes and numbers of layers from the shapes and names of the tensors. You
/// must set `n_heads` unless the file has this crate's [`metadata`](super::metadata()) or is a file
/// of T5, whose table of relative positions shows it. If another hyper-parameter is `None`, it is
/// taken from the file; if the file does not show it, it has the layout's usual value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)] // fields without docs are those of `TransformerConfig` with the same names
pub struct ImportOptions {
    /// Layout of the file; `None` recognises it by the names of the tensors.
    #[serde(skip)]
    pub layout: Option<Layout>,
    pub n_heads: Option<usize>,
    /// Number of heads of the decoder, if it is not that of the encoder.
    #[serde(skip)]
    pub n_decoder_heads: Option<usize>,
    pub activation: Option<Activation>,
    pub norm_placement: Option<NormPlacement>,
    pub norm_variance: Option<NormVariance>,
    pub norm_epsilon: Option<f64>,
    pub positions: Option<Positions>,
    pub max_len: Option<usize>,
    /// Base of rotary positions: [`PositionConfig::rotary_base`](crate::PositionConfig::rotary_base).
    #[serde(skip)]
    pub rotary_base: Option<f64>,
    pub scale_embeddings: Option<bool>,
    pub weight_tying: Option<WeightTying>,
    pub pad_id: Option<u32>,
    pub dropout: Option<f64>,
    pub scale_logits: Option<bool>,
    pub relative_max_distance: Option<usize>,
    /// Entry of the file's outermost dictionary that holds the weights. With `None`, the import
    /// chooses the entry. It fails if several entries are possible and none has a usual name, such
    /// as `model`.
    pub entry: Option<String>,
    /// Tensors to rename: pairs of a name in the file and the name in the layout.
    ///
    /// The name in the file is either the whole name of one tensor, including the name of its
    /// entry, or a name within an entry, which renames the tensors of this name in all entries. The
    /// name in the layout never includes the name of an entry.
    pub rename: Vec<(String, String)>,
    /// Whether to skip tensors that the model does not have, and Python objects that are neither
    /// tensors nor plain data, instead of rejecting the file. Tensors in other entries than the
    /// weights are always skipped.
    pub allow_unused: bool,
    /// Whether to quantise matrices while the file is read, as
    /// [`quantize_int8`](super::quantize_int8()) does on flex.
    pub int8: bool,
}

impl ImportOptions {
    /// Fills the options that are not set with the values of `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            layout: self.layout.or(others.layout),
            n_heads: self.n_heads.or(others.n_heads),
            n_decoder_heads: self.n_decoder_heads.or(others.n_decoder_heads),
            activation: self.activation.or(others.activation),
            norm_placement: self.norm_placement.or(others.norm_placement),
            norm_variance: self.norm_variance.or(others.norm_variance),
            norm_epsilon: self.norm_epsilon.or(others.norm_epsilon),
            positions: self.positions.or(others.positions),
            max_len: self.max_len.or(others.max_len),
            rotary_base: self.rotary_base.or(others.rotary_base),
            scale_embeddings: self.scale_embeddings.or(others.scale_embeddings),
            weight_tying: self.weight_tying.or(others.weight_tying),
            pad_id: self.pad_id.or(others.pad_id),
            dropout: self.dropout.or(others.dropout),
            scale_logits: self.scale_logits.or(others.scale_logits),
            relative_max_distance: self.relative_max_distance.or(others.relative_max_distance),
            entry: self.entry.or(others.entry),
            rename: if self.rename.is_empty() {
                others.rename
            } else {
                self.rename
            },
            allow_unused: self.allow_unused || others.allow_unused,
            int8: self.int8 || others.int8,
        }
    }
}
