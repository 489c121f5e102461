//! Generates Python code that builds the PyTorch module for an exported file.

use std::path::Path;

use serde_json::Value;
use training::data::Vocabularies;
use transformer::weights::{self, Contents, Layout};
use transformer::{Activation, NormPlacement, TransformerConfig};

/// Properties of an exported file that the Python code depends on.
pub(super) struct Exported<'a> {
    pub(super) config: &'a TransformerConfig,
    /// Part of the model that the file holds.
    pub(super) contents: Contents,
    pub(super) layout: Layout,
    /// Special tokens of the model; `None` if they are not known.
    pub(super) vocabularies: Option<Vocabularies>,
    /// Whether the file has tables of sines and cosines, if its layout has such tables.
    pub(super) has_positions: bool,
    pub(super) path: &'a Path,
}

impl Exported<'_> {
    /// Returns Python code that builds the module and loads the file.
    ///
    /// For a single encoder or decoder, the code only builds the module. For the layout `paper`,
    /// which has no standard class, the code is a comment with the hyper-parameters. Returns `None`
    /// for the native layout, and for a single encoder or decoder in any layout but `torch-nn`.
    pub(super) fn code(&self) -> Option<String> {
        let c = self.config;
        let (d, heads, d_ff, max_len) = (c.d_model, c.n_heads, c.d_ff, c.max_len);
        let (source, target) = (c.source_vocab_size, c.target_vocab_size);
        let (encoders, decoders) = (c.n_encoder_layers, c.n_decoder_layers);
        let (dropout, epsilon, activation) = (c.dropout, c.norm_epsilon, c.activation);
        let is_pre = python(c.norm_placement == NormPlacement::Pre);
        let imports = "from safetensors.torch import load_file\nfrom torch import nn";
        let positions = self.load(self.has_positions);
        if self.contents != Contents::Model && self.layout != Layout::TorchNn {
            return None;
        }
        Some(match self.layout {
            Layout::Native => return None,
            Layout::Paper => format!(
                "# hyper-parameters: source_vocab_size={source}, target_vocab_size={target}, \
                 d_model={d}, n_heads={heads}, n_encoder_layers={encoders}, \
                 n_decoder_layers={decoders}, d_ff={d_ff}, dropout={dropout:?}, \
                 activation=\"{activation}\", pre_norm={is_pre}, layer_norm_eps={epsilon:?}, \
                 max_len={max_len}"
            ),
            Layout::TorchNn => {
                let layer = format!(
                    "dim_feedforward={d_ff}, dropout={dropout:?}, activation={}, \
                     layer_norm_eps={epsilon:?}, batch_first=True, norm_first={is_pre}",
                    module_of(activation)
                );
                let (stack, layers) = match self.contents {
                    Contents::Model => {
                        return Some(format!("{imports}\n{}", self.torch_nn(&layer)));
                    }
                    Contents::Encoder => ("Encoder", encoders),
                    Contents::Decoder => ("Decoder", decoders),
                };
                let name = stack.to_lowercase();
                let norm = format!(", norm=nn.LayerNorm({d}, eps={epsilon:?})");
                let norm = if c.final_norm { &norm } else { "" };
                format!(
                    "from torch import nn\n{name} = nn.Transformer{stack}(nn.Transformer{stack}Layer(\
                     d_model={d}, nhead={heads}, {layer}), num_layers={layers}{norm})"
                )
            }
            Layout::Annotated => {
                let mut changes = String::new();
                let mut change = |is_needed: bool, what: String| {
                    if is_needed {
                        changes += &format!("# in the class: {what}\n");
                    }
                };
                change(decoders != encoders, format!("Decoder(.., N={decoders})"));
                let what = format!("{activation} instead of relu in PositionwiseFeedForward");
                change(activation != Activation::Relu, what);
                let what = format!("PositionalEncoding(.., max_len={max_len})");
                change(self.has_positions && max_len != 5000, what);
                format!(
                    "from safetensors.torch import load_file\n\
                     model = make_model({source}, {target}, N={encoders}, d_model={d}, \
                     d_ff={d_ff}, h={heads}, dropout={dropout:?})\n{changes}{positions}"
                )
            }
            Layout::Labml => {
                let attention = format!("MultiHeadAttention({heads}, {d}, {dropout:?})");
                let activation = module_of(activation);
                let layer = |cross: &str| {
                    format!(
                        "TransformerLayer(d_model={d}, self_attn={attention}{cross}, \
                         feed_forward=FeedForward({d}, {d_ff}, {dropout:?}, {activation}), \
                         dropout_prob={dropout:?})"
                    )
                };
                let (encoder, decoder) = (layer(""), layer(&format!(", src_attn={attention}")));
                format!(
                    "{imports}
model = EncoderDecoder(
    Encoder({encoder}, {encoders}),
    Decoder({decoder}, {decoders}),
    EmbeddingsWithPositionalEncoding({d}, {source}, {max_len}),
    EmbeddingsWithPositionalEncoding({d}, {target}, {max_len}),
    Generator({target}, {d}),
)
{positions}"
                )
            }
            Layout::Bart | Layout::M2m100 | Layout::Marian | Layout::T5Gated | Layout::T5 => {
                self.hugging_face()?
            }
        })
    }

    /// Returns code for `torch.nn.Transformer`. Embeddings and generator are separate modules.
    /// `layer` has the arguments that `nn.Transformer` shares with its layers.
    fn torch_nn(&self, layer: &str) -> String {
        let c = self.config;
        let (d, heads, max_len) = (c.d_model, c.n_heads, c.max_len);
        let (source, target) = (c.source_vocab_size, c.target_vocab_size);
        let (encoders, decoders) = (c.n_encoder_layers, c.n_decoder_layers);
        let table = "model[\"tgt_tok_emb\"][\"embedding\"].weight\n";
        let mut tied = String::new();
        if c.weight_tying.shares_generator() {
            tied += &format!("model[\"generator\"].weight = {table}");
        }
        if c.weight_tying.shares_source() {
            tied += &format!("model[\"src_tok_emb\"][\"embedding\"].weight = {table}");
        }
        // The module has no tables of positions. `load_state_dict` can be strict only if the file
        // has none.
        let load = self.load(!self.has_positions);
        format!(
            "model = nn.ModuleDict({{
    \"transformer\": nn.Transformer(d_model={d}, nhead={heads}, num_encoder_layers={encoders}, \
num_decoder_layers={decoders}, {layer}),
    \"src_tok_emb\": nn.ModuleDict({{\"embedding\": nn.Embedding({source}, {d})}}),
    \"tgt_tok_emb\": nn.ModuleDict({{\"embedding\": nn.Embedding({target}, {d})}}),
    \"generator\": nn.Linear({d}, {target}),
}})
{tied}{load}
# input of both stacks: embedding(ids) * {d} ** 0.5 + positions, a sinusoidal table [{max_len}, {d}]"
        )
    }

    /// Returns code for a Hugging Face model; `None` for any other layout.
    fn hugging_face(&self) -> Option<String> {
        let mut fields = weights::hugging_face_config(self.config, self.layout)?;
        fields.remove("architectures");
        if let Some(vocabularies) = self.vocabularies {
            let mut set = |name: &str, id: u32| fields.insert(name.into(), id.into());
            set("decoder_start_token_id", vocabularies.bos_id);
            vocabularies.eos_id.map(|id| set("eos_token_id", id));
        }
        // Version 5 of the library `transformers` shares the generator's matrix of a new model with
        // the embeddings, whatever the configuration says.
        let untie = if self.config.weight_tying.shares_generator() {
            ""
        } else {
            "import torch\nmodel.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())\n"
        };
        let model_type = fields.remove("model_type")?;
        let fields = fields.iter().map(|(name, value)| match value {
            Value::Bool(true) => format!("{name}=True"),
            Value::Bool(false) => format!("{name}=False"),
            value => format!("{name}={value}"),
        });
        Some(format!(
            "from safetensors.torch import load_file\nfrom transformers import AutoConfig, AutoModelForSeq2SeqLM\nmodel = AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model({model_type}, {}))\n{untie}{}",
            fields.collect::<Vec<_>>().join(", "),
            // The file may lack tables of positions that the class has, so `load_state_dict` is not
            // strict.
            self.load(false)
        ))
    }

    fn load(&self, is_strict: bool) -> String {
        let strict = if is_strict { "" } else { ", strict=False" };
        let path = self.path.display().to_string();
        format!("model.load_state_dict(load_file({path:?}){strict})")
    }
}

/// Returns the module of an activation.
fn module_of(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "nn.ReLU()",
        Activation::Gelu => "nn.GELU()",
        Activation::GeluTanh => "nn.GELU(approximate=\"tanh\")",
        Activation::Swish => "nn.SiLU()",
        Activation::Glu | Activation::Geglu | Activation::GegluTanh | Activation::Swiglu => {
            unreachable!("export rejects gated activations")
        }
    }
}

fn python(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

#[cfg(test)]
mod tests;
