//! Python code that loads an exported file.

use std::path::Path;

use serde_json::Value;

use super::hugging_face_config;
use crate::config::{Activation, TransformerConfig};
use crate::weights::contents::Contents;
use crate::weights::layout::Layout;
use crate::weights::stacks::Stacks;

/// Properties of an exported file that the Python code depends on: see [`Layout::python`].
#[derive(Debug)]
pub struct PythonModel<'a> {
    /// Configuration of the model or of a stack.
    pub stacks: Stacks,
    /// Part of the model that the file holds.
    pub contents: Contents,
    /// Tokens with which targets begin and, if there is one, end; `None` if they are not known.
    pub begin_end: Option<(u32, Option<u32>)>,
    /// Whether the file has tables of sines and cosines, if its layout has such tables.
    pub has_positions: bool,
    /// Path of the file.
    pub path: &'a Path,
}

impl PythonModel<'_> {
    /// Returns the configuration if the file holds a whole model.
    pub(super) fn whole(&self) -> Option<TransformerConfig> {
        let whole = self.stacks.config();
        whole.filter(|_| self.contents == Contents::Model)
    }

    /// Returns the line that loads the file.
    pub(super) fn load(&self, is_strict: bool) -> String {
        let strict = if is_strict { "" } else { ", strict=False" };
        // Python reads the escapes of JSON, unlike those of Rust.
        let path = serde_json::Value::from(self.path.display().to_string());
        format!("model.load_state_dict(load_file({path}){strict})")
    }
}

/// Returns the code of a model in a layout of Hugging Face.
pub(super) fn hugging_face(model: &PythonModel, layout: Layout) -> Option<String> {
    let family = layout.family();
    let class = family.hugging_face.as_ref()?.auto_class;
    let mut fields = hugging_face_config(&model.stacks, layout)?;
    if model.contents != family.contents {
        return None;
    }
    fields.remove("architectures");
    if let Some((begin, end)) = model.begin_end {
        let mut set = |name: &str, id: u32| fields.insert(name.into(), id.into());
        let name = match family.contents {
            Contents::Model => "decoder_start_token_id",
            _ => "bos_token_id",
        };
        set(name, begin);
        end.map(|id| set("eos_token_id", id));
    }
    // Version 5 of the library `transformers` shares the generator's matrix of a new model with the
    // embeddings, whatever the configuration says.
    let decoder = model.stacks.decoder.as_ref();
    let untie = if decoder.is_none_or(|decoder| decoder.generator.is_tied) {
        ""
    } else {
        "import torch\nmodel.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())\n"
    };
    let model_type = fields.remove("model_type")?;
    let fields = fields.iter().map(|(name, value)| match value {
        Value::Bool(value) => format!("{name}={}", python(*value)),
        value => format!("{name}={value}"),
    });
    Some(format!(
        "from safetensors.torch import load_file\nfrom transformers import AutoConfig, {class}\nmodel = {class}.from_config(AutoConfig.for_model({model_type}, {}))\n{untie}{}",
        fields.collect::<Vec<_>>().join(", "),
        // The file may lack tables of positions that the class has, so `load_state_dict` is not
        // strict.
        model.load(false)
    ))
}

/// Returns the module of an activation.
pub(super) fn module_of(activation: Activation) -> &'static str {
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

pub(super) fn python(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Choice;
    use crate::config::{NormPlacement, WeightTying};
    fn code(layout: Layout, config: &TransformerConfig, has_positions: bool) -> String {
        let model = PythonModel {
            stacks: config.into(),
            contents: Contents::Model,
            begin_end: None,
            has_positions,
            path: Path::new("a.safetensors"),
        };
        layout.python(&model).unwrap_or_default()
    }

    #[test]
    fn no_two_activations_have_the_same_module() {
        let plain = Activation::ALL.iter().filter(|it| !it.is_gated());
        let mut modules: Vec<_> = plain.map(|&activation| module_of(activation)).collect();
        let all = modules.len();
        modules.sort_unstable();
        modules.dedup();
        assert_eq!(modules.len(), all);
    }

    #[test]
    fn torch_nn_has_every_argument_that_the_outputs_depend_on() {
        let config = TransformerConfig::new(36, 40).with_d_model(64);
        let base = code(Layout::TorchNn, &config, true);
        let call = "nn.Transformer(d_model=64, nhead=8, num_encoder_layers=6, num_decoder_layers=6, \
                dim_feedforward=2048, dropout=0.1, activation=nn.ReLU(), layer_norm_eps=1e-5, \
                batch_first=True, norm_first=False)";
        for part in [
            call,
            "\"embedding\": nn.Embedding(36, 64)",
            "\"embedding\": nn.Embedding(40, 64)",
            "nn.Linear(64, 40)",
            "from torch import nn\nmodel = nn.ModuleDict({",
            "load_file(\"a.safetensors\"), strict=False)",
            "a sinusoidal table [5000, 64]",
        ] {
            assert!(base.contains(part), "{base}\nhas no {part}");
        }
        assert!(!base.contains(".weight ="), "{base}");
        let other = config
            .with_n_heads(4)
            .with_n_encoder_layers(2)
            .with_n_decoder_layers(3)
            .with_d_ff(99)
            .with_dropout(0.0)
            .with_activation(Activation::Swish)
            .with_norm_epsilon(1e-6)
            .with_norm_placement(NormPlacement::Pre)
            .with_weight_tying(WeightTying::Decoder);
        let other = code(Layout::TorchNn, &other, false);
        let call = "nn.Transformer(d_model=64, nhead=4, num_encoder_layers=2, num_decoder_layers=3, \
                dim_feedforward=99, dropout=0.0, activation=nn.SiLU(), \
                layer_norm_eps=1e-6, batch_first=True, norm_first=True)";
        for part in [
            call,
            "\nmodel[\"generator\"].weight = model[\"tgt_tok_emb\"][\"embedding\"].weight\n",
            "load_file(\"a.safetensors\"))",
        ] {
            assert!(other.contains(part), "{other}\nhas no {part}");
        }
    }

    #[test]
    fn a_stack_alone_is_the_stack_of_torch_nn() {
        let config = TransformerConfig::new(9, 9)
            .with_d_model(16)
            .with_n_heads(2);
        let stack = |config: &TransformerConfig, contents| {
            let model = PythonModel {
                stacks: config.into(),
                contents,
                begin_end: None,
                has_positions: true,
                path: Path::new("a"),
            };
            Layout::TorchNn.python(&model).unwrap()
        };
        let encoder = stack(&config, Contents::Encoder);
        assert!(
        encoder.starts_with(
            "from torch import nn\nencoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_"
        ) && encoder.ends_with("num_layers=6, norm=nn.LayerNorm(16, eps=1e-5))"),
        "{encoder}"
    );
        let decoder = stack(&config.with_final_norm(false), Contents::Decoder);
        assert!(decoder.ends_with("num_layers=6)"), "{decoder}");
    }

    #[test]
    fn other_layouts_have_their_classes() {
        let config = TransformerConfig::new(36, 36)
            .with_d_model(64)
            .with_n_decoder_layers(2)
            .with_max_len(18)
            .with_pad_id(3)
            .with_activation(Activation::Gelu);
        for (layout, parts) in [
            (
                Layout::Annotated,
                &[
                    "make_model(36, 36, N=6, d_model=64, d_ff=2048, h=8, dropout=0.1)",
                    "Decoder(.., N=2)",
                    "gelu instead of relu",
                    "max_len=18",
                ][..],
            ),
            (
                Layout::Labml,
                &[
                    "Encoder(TransformerLayer(d_model=64, self_attn=MultiHeadAttention(8, 64, 0.1), feed",
                    "FeedForward(64, 2048, 0.1, nn.GELU())",
                    "src_attn=MultiHeadAttention(8, 64, 0.1)",
                    "EmbeddingsWithPositionalEncoding(64, 36, 18)",
                    "Generator(36, 64)",
                ],
            ),
            (
                Layout::Marian,
                &[
                    "AutoConfig.for_model(\"marian\", ",
                    "vocab_size=36",
                    "encoder_layers=6",
                    "activation_function=\"gelu\"",
                    "pad_token_id=3",
                    "max_position_embeddings=18",
                ],
            ),
            (
                Layout::T5Gated,
                &[
                    "AutoConfig.for_model(\"t5\", ",
                    "num_layers=6",
                    "tie_word_embeddings=False",
                ],
            ),
            (Layout::Paper, &["d_model=64", "pre_norm=False"]),
        ] {
            let code = code(layout, &config, true);
            for part in parts {
                assert!(code.contains(part), "{code}\nhas no {part}");
            }
        }
        assert_eq!(code(Layout::Native, &config, true), "");
    }
}
