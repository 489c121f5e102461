//! Flags of `fit` about the model.

use clap::Args;
use transformer::weights::Layout;
use transformer::{Activation, NormPlacement, Positions, TransformerConfig, WeightTying};

use crate::args::check::set;
use crate::args::parse::{FRACTION, named, number, whole_number};

/// Flags of `fit` about the model.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct HyperParameterArgs {
    /// Use the architecture of the models with this layout of weights, such as t5: their norms,
    /// positions, activation, biases and shared matrices; other flags override it
    #[arg(long, value_name = "LAYOUT", conflicts_with = "from", value_parser = named::<Layout>())]
    pub family: Option<Layout>,
    /// Width of the model
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub d_model: Option<usize>,
    /// Number of attention heads, which must divide the width unless model.d_kv is set
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub heads: Option<usize>,
    /// Number of layers in the encoder, and in the decoder
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub layers: Option<usize>,
    /// Inner width of the feed-forward networks
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub d_ff: Option<usize>,
    /// Dropout probability, at least 0 and less than 1
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number::<f64>(FRACTION))]
    pub dropout: Option<f64>,
    /// Placement of layer normalisation [default: pre]
    #[arg(long, value_name = "WHERE", value_parser = named::<NormPlacement>())]
    pub norm: Option<NormPlacement>,
    /// Positional encoding
    #[arg(long, value_name = "KIND", value_parser = named::<Positions>())]
    pub positions: Option<Positions>,
    /// Activation function of the feed-forward networks [default: relu]
    #[arg(long, value_name = "FUNCTION", value_parser = named::<Activation>())]
    pub activation: Option<Activation>,
    /// Vocabulary matrices that are shared [default: none]
    #[arg(long, value_name = "WHICH", value_parser = named::<WeightTying>())]
    pub weight_tying: Option<WeightTying>,
}

impl HyperParameterArgs {
    /// Overrides settings by the given flags.
    pub fn apply(&self, model: &mut TransformerConfig) {
        if let Some(family) = self.family {
            *model = family.choices(model.clone());
        }
        set(&mut model.d_model, self.d_model);
        set(&mut model.n_heads, self.heads);
        set(&mut model.n_encoder_layers, self.layers);
        set(&mut model.n_decoder_layers, self.layers);
        set(&mut model.d_ff, self.d_ff);
        set(&mut model.dropout, self.dropout);
        set(&mut model.norm_placement, self.norm);
        set(&mut model.positions, self.positions);
        set(&mut model.activation, self.activation);
        set(&mut model.weight_tying, self.weight_tying);
    }
}
