//! Generates Python code that builds the PyTorch module for an exported file.

#[cfg(test)]
mod tests;

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
    /// the code is a comment with the hyper-parameters. Returns `None` for the native layout, and
    /// for a single encoder or decoder in any layout but `torch-nn`.
    pub(super) fn code(&self) -> Option<String> {
        if self.contents != Contents::Model {
            let code = || format!("from torch import nn\n{}", self.torch_nn_stack());
            return (self.layout == Layout::TorchNn).then(code);
        }
        let (imports, code) = match self.layout {
            Layout::Native => return None,
            Layout::Paper => return Some(self.paper()),
            Layout::Labml => ("from torch import nn\n", self.labml()),
            Layout::Annotated => ("", self.annotated()),
            Layout::TorchNn => ("from torch import nn\n", self.torch_nn()),
            Layout::Bart | Layout::M2m100 | Layout::Marian | Layout::T5Gated | Layout::T5 => (
                "from transformers import AutoConfig, AutoModelForSeq2SeqLM\n",
                self.hugging_face()?,
            ),
        };
        let load_file = "from safetensors.torch import load_file";
        Some(format!("{load_file}\n{imports}{code}"))
    }

    /// Returns code for `torch.nn.Transformer`. Embeddings and generator are separate modules.
    fn torch_nn(&self) -> String {
        let c = self.config;
        let (d, source, target) = (c.d_model, c.source_vocab_size, c.target_vocab_size);
        let mut lines = vec![
            "model = nn.ModuleDict({".into(),
            format!(
                "    \"transformer\": nn.Transformer({}, num_encoder_layers={}, num_decoder_layers={}, {}),",
                self.width_and_heads(),
                c.n_encoder_layers,
                c.n_decoder_layers,
                self.layer_arguments(),
            ),
            format!(
                "    \"src_tok_emb\": nn.ModuleDict({{\"embedding\": nn.Embedding({source}, {d})}}),"
            ),
            format!(
                "    \"tgt_tok_emb\": nn.ModuleDict({{\"embedding\": nn.Embedding({target}, {d})}}),"
            ),
            format!("    \"generator\": nn.Linear({d}, {target}),"),
            "})".into(),
        ];
        let table = "model[\"tgt_tok_emb\"][\"embedding\"].weight";
        if c.weight_tying.shares_generator() {
            lines.push(format!("model[\"generator\"].weight = {table}"));
        }
        if c.weight_tying.shares_source() {
            lines.push(format!(
                "model[\"src_tok_emb\"][\"embedding\"].weight = {table}"
            ));
        }
        // The module has no tables of positions. `load_state_dict` can be strict only if the file
        // has none.
        lines.push(self.load(!self.has_positions));
        lines.push(format!(
            "# input of both stacks: embedding(ids) * {d} ** 0.5 + positions, a sinusoidal table [{}, {d}]",
            c.max_len
        ));
        lines.join("\n")
    }

    /// Returns code for `nn.TransformerEncoder` or `nn.TransformerDecoder`.
    fn torch_nn_stack(&self) -> String {
        let (stack, layers) = match self.contents {
            Contents::Decoder => ("Decoder", self.config.n_decoder_layers),
            _ => ("Encoder", self.config.n_encoder_layers),
        };
        let norm = if self.config.final_norm {
            format!(
                ", norm=nn.LayerNorm({}, eps={:?})",
                self.config.d_model, self.config.norm_epsilon
            )
        } else {
            String::new()
        };
        format!(
            "{} = nn.Transformer{stack}(nn.Transformer{stack}Layer({}, {}), num_layers={layers}{norm})",
            stack.to_lowercase(),
            self.width_and_heads(),
            self.layer_arguments(),
        )
    }

    fn width_and_heads(&self) -> String {
        format!(
            "d_model={}, nhead={}",
            self.config.d_model, self.config.n_heads
        )
    }

    /// Returns the arguments that `nn.Transformer` shares with its layers.
    fn layer_arguments(&self) -> String {
        let c = self.config;
        let activation = module_of(c.activation);
        format!(
            "dim_feedforward={}, dropout={:?}, activation={activation}, layer_norm_eps={:?}, batch_first=True, norm_first={}",
            c.d_ff,
            c.dropout,
            c.norm_epsilon,
            python(c.norm_placement == NormPlacement::Pre),
        )
    }

    /// Returns code for `make_model` of the Annotated Transformer.
    fn annotated(&self) -> String {
        let c = self.config;
        let mut lines = vec![
            format!(
                "model = make_model({}, {}, N={}, d_model={}, d_ff={}, h={}, dropout={:?})",
                c.source_vocab_size,
                c.target_vocab_size,
                c.n_encoder_layers,
                c.d_model,
                c.d_ff,
                c.n_heads,
                c.dropout
            ),
            self.load(self.has_positions),
        ];
        let mut change =
            |what: String| lines.insert(lines.len() - 1, format!("# in the class: {what}"));
        if c.n_decoder_layers != c.n_encoder_layers {
            change(format!("Decoder(.., N={})", c.n_decoder_layers));
        }
        if c.activation != Activation::Relu {
            change(format!(
                "{} instead of relu in PositionwiseFeedForward",
                c.activation
            ));
        }
        if self.has_positions && c.max_len != 5000 {
            change(format!("PositionalEncoding(.., max_len={})", c.max_len));
        }
        lines.join("\n")
    }

    /// Returns code for labml's `EncoderDecoder`.
    fn labml(&self) -> String {
        let c = self.config;
        let (d, dropout) = (c.d_model, format!("{:?}", c.dropout));
        let activation = module_of(c.activation);
        let attention = format!("MultiHeadAttention({}, {d}, {dropout})", c.n_heads);
        let layer = |source: &str| {
            format!(
                "TransformerLayer(d_model={d}, self_attn={attention}{source}, feed_forward=FeedForward({d}, {}, {dropout}, {activation}), dropout_prob={dropout})",
                c.d_ff
            )
        };
        let embed = |size| {
            format!(
                "EmbeddingsWithPositionalEncoding({d}, {size}, {})",
                c.max_len
            )
        };
        [
            "model = EncoderDecoder(".into(),
            format!("    Encoder({}, {}),", layer(""), c.n_encoder_layers),
            format!(
                "    Decoder({}, {}),",
                layer(&format!(", src_attn={attention}")),
                c.n_decoder_layers
            ),
            format!("    {},", embed(c.source_vocab_size)),
            format!("    {},", embed(c.target_vocab_size)),
            format!("    Generator({}, {d}),", c.target_vocab_size),
            ")".into(),
            self.load(self.has_positions),
        ]
        .join("\n")
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
            "model = AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model({model_type}, {}))\n{untie}{}",
            fields.collect::<Vec<_>>().join(", "),
            // The file may lack tables of positions that the class has, so `load_state_dict` is not
            // strict.
            self.load(false)
        ))
    }

    /// Returns the hyper-parameters as a comment, because there is no standard class for the layout
    /// `paper`.
    fn paper(&self) -> String {
        let c = self.config;
        format!(
            "# hyper-parameters: source_vocab_size={}, target_vocab_size={}, d_model={}, n_heads={}, n_encoder_layers={}, n_decoder_layers={}, d_ff={}, dropout={:?}, activation=\"{}\", pre_norm={}, layer_norm_eps={:?}, max_len={}",
            c.source_vocab_size,
            c.target_vocab_size,
            c.d_model,
            c.n_heads,
            c.n_encoder_layers,
            c.n_decoder_layers,
            c.d_ff,
            c.dropout,
            c.activation,
            python(c.norm_placement == NormPlacement::Pre),
            c.norm_epsilon,
            c.max_len
        )
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
