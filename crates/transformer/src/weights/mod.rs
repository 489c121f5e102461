//! Weights: the parameters of a module by name, and the files that hold them.
//!
//! [`save`](save()) writes a model with its configuration, and [`load`] reads it; nothing else is
//! needed. The file is a safetensors file with the names that [`parameters`] returns. [`import`]
//! also reads the files of other implementations, including PyTorch checkpoints with the feature
//! `pytorch`, and [`export`] returns parameters in their layouts. [`Layout`] lists the layouts, each
//! of a family of models, and [`Rules`] read files of any other names into any module.
//! [`ModelFolder`] opens the folders of Hugging Face's families: T5, BART, mBART, M2M100, Marian and
//! Pegasus are whole models, GPT-2 and Llama are decoders, BERT is an encoder, and Whisper has an
//! encoder of sound.
//!
//! A module of your own that holds a model is saved as any Burn module is, by records or by
//! burn-store, whose names of parameters are the same, or by names with [`parameters`],
//! [`to_bytes`], [`from_bytes`] and [`with_parameters`]:
//!
//! ```
//! use burn::tensor::Device;
//! use transformer::TransformerConfig;
//! use transformer::weights::{from_bytes, parameters, to_bytes, with_parameters};
//!
//! let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
//! let model = config.init_seeded(1, &Device::flex())?;
//! let bytes = to_bytes(&parameters(&model))?;
//!
//! let other = config.init_seeded(2, &Device::flex())?;
//! let same = with_parameters(&other, from_bytes(&bytes)?)?;
//! assert_eq!(parameters(&same), parameters(&model));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Names of parameters
//!
//! `{stack}` is `encoder` or `decoder`; a stack alone has the names without it. `{n}` is the number
//! of a layer, from 0. Linear layers are `[in, out]`, and their biases are left out here.
//!
//! | name | shape | where |
//! |---|---|---|
//! | `{stack}.input.embedding.weight` | `[V, D]` | unless the encoder shares the decoder's, or takes vectors |
//! | `{stack}.input.position.learned.weight` | `[max_len, D]` | learned positions |
//! | `{stack}.input.norm.gamma`, `.beta` | `[D]` | with a norm of embeddings |
//! | `{stack}.layers.{n}.self_attention.w_qkv.weight` | `[D, (H + 2 G) K]` | |
//! | `{stack}.layers.{n}.self_attention.w_o.weight` | `[H K, D]` | |
//! | `decoder.layers.{n}.cross_attention.w_q.weight` | `[D, H K]` | with cross-attention |
//! | `decoder.layers.{n}.cross_attention.w_kv.weight` | `[D, 2 G K]` | with cross-attention |
//! | `decoder.layers.{n}.cross_attention.w_o.weight` | `[H K, D]` | with cross-attention |
//! | `{stack}.layers.{n}.feed_forward.w_1.weight` | `[D, F]`, gated `[D, 2 F]` | |
//! | `{stack}.layers.{n}.feed_forward.w_2.weight` | `[F, D]` | |
//! | `{stack}.layers.{n}.{sublayer}_residual.norm.gamma`, `.beta` | `[D]` | `self_attention`, `cross_attention`, `feed_forward`; RMS norms have no `beta` |
//! | `{stack}.attention_position.relative.weight` | `[buckets, H]` | relative positions |
//! | `{stack}.final_norm.gamma`, `.beta` | `[D]` | with a final norm |
//! | `decoder.generator.weight` | `[D, V]` | unless tied |
//! | `decoder.generator.bias` | `[V]` | with a bias of logits |

mod assemble;
mod contents;
mod element;
mod error;
mod expand;
mod export;
mod families;
mod fields;
mod file;
mod folder;
mod found;
mod header;
mod import;
mod int8;
mod json;
mod layout;
mod named;
mod options;
mod parameters;
#[cfg(feature = "pytorch")]
mod pickle;
mod pieces;
mod positions;
#[cfg(feature = "pytorch")]
mod pytorch;
mod quantize;
mod recognise;
mod rule;
mod rules;
mod safetensors;
mod save;
mod sizes;
mod stacks;
mod tying;
mod unique;
mod unshown;

pub use contents::Contents;
pub use error::WeightsError;
pub use export::export;
pub use families::{PythonModel, hugging_face_config};
pub use file::WeightsFile;
pub use folder::{ModelFolder, hugging_face_generation, read_generation};
pub use header::{ForeignObject, TensorInfo};
pub use import::{Imported, import};
pub use int8::dequantize;
pub use layout::Layout;
pub use named::{MapNamed, VisitNamed, map_named, visit_named};
pub use options::ImportOptions;
pub use parameters::{Parameters, mean, parameters, shapes, with_parameters};
pub use quantize::quantize_int8;
pub use recognise::{Recognised, recognise};
pub use rules::Rules;
pub use safetensors::{Dtype, from_bytes, metadata_of, read_file, to_bytes, to_bytes_with, write};
pub use save::{Saved, load, save};
pub use stacks::{Stacks, metadata};
#[doc(hidden)]
pub use unique::Unique;
