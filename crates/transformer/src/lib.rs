//! The encoder-decoder Transformer of *Attention Is All You Need* (arXiv 1706.03762) for any Burn
//! backend.
//!
//! The crate has the whole model: embeddings, positional encoding, encoder, decoder and generator
//! (the output layer). It also has the label-smoothed loss, generation by greedy decoding, sampling
//! and beam search, and the import and export of PyTorch weights. Encoder and decoder can also be
//! used alone, or inside a module of your own. One [`TransformerConfig`] describes a model; its
//! default sizes are those of the paper's base model.
//!
//! ```
//! use burn::tensor::Device;
//! use transformer::generate::GenerateConfig;
//! use transformer::{AttentionMask, TransformerConfig, pad_sequences};
//!
//! let device = Device::flex();
//! let model = TransformerConfig::new(100, 90)
//!     .with_d_model(32)
//!     .with_n_heads(4)
//!     .with_d_ff(64)
//!     .init(&device)?;
//!
//! // Teacher forcing: the logits of the token that follows each target token.
//! let source = pad_sequences(&[vec![12, 45, 88], vec![7]], 0, &device);
//! let mask = AttentionMask::of_lengths(&[3, 1], &device);
//! let target = pad_sequences(&[vec![1, 7, 9], vec![1, 5]], 0, &device);
//! assert_eq!(model.forward(source, Some(&mask), target).dims(), [2, 3, 90]);
//!
//! // Generation: targets of at most 10 tokens, with begin symbol 1 and end symbol 2.
//! let config = GenerateConfig::new(10).with_bos_id(Some(1)).with_eos_id(Some(2));
//! let hypotheses = model.generate(&[vec![12, 45, 88], vec![7]], &config)?;
//! assert_eq!(hypotheses.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Related libraries
//!
//! **burn-nn** has encoder and decoder stacks, and modules for embeddings, positions and losses.
//! This crate has whole models, and the search. It also reads and writes the weights of other
//! implementations. The decoder cache of this crate holds only keys and values, in buffers that are
//! written in place. The hypotheses of a beam share cached keys and values. The operations of the
//! `fused` crate make training and inference fast on Burn's CPU backend flex. Its stacks are these:
//!
//! | burn-nn | this crate |
//! |---|---|
//! | `TransformerEncoderConfig::new(d_model, d_ff, n_heads, n_layers)` | [`EncoderConfig::new`] with the same arguments, and [`Encoder::forward_vectors`]; dropout is the same within layers |
//! | no positions, no dropout of the input, no norm after the last layer | `.with_positions(Positions::None)`, `config.input.dropout = 0.0`, `.with_final_norm(false)`; by default, a stack has all three |
//! | GELU | `.with_activation(Activation::Gelu)`; ReLU by default, as in the paper |
//! | `norm_first`: `norm_2` is before the attention, `norm_1` before the feed-forward network (in a decoder `norm_3`, then `norm_1` and `norm_2`) | [`NormPlacement::Pre`]; each norm has the name of its sublayer |
//! | `quiet_softmax` | none |
//! | `mask_pad`, `mask_attn` | [`AttentionMask::from`] and [`AttentionMask::from_blocked`], combined by `and`; keys that are all blocked get weights of 0 |
//! | `TransformerDecoder`, whose input is vectors; causal by a mask | [`Decoder`], whose input is tokens; always causal |
//! | parameters | [`weights::Rules::as_in_burn`] reads them |
//!
//! **PyTorch's `nn.Transformer`** computes the same values: outputs, losses and gradients are
//! tested against PyTorch's. The interface of this crate differs in these points:
//!
//! - All tensors are batch-first.
//! - [`Transformer::forward`] takes one mask, of the source's padding. The decoder builds the causal
//!   mask.
//! - Weights of linear layers are `[in, out]`. Cross-attention has one packed matrix for keys and
//!   values, and a separate matrix for queries.
//! - If all keys of a query are masked, its attention weights are zeros. PyTorch may return NaN.
//!
//! The module [`weights`] converts weights between PyTorch's layout and this crate's layout.
//!
//! # Conventions
//!
//! - **Shapes** are written with these letters: `B` batch, `S` source length, `T` target length,
//!   `D` `d_model`, `H` heads, `G` key-value heads (by default `H`), `K` width of a head (by
//!   default `D / H`), `F` `d_ff`, `V` vocabulary size.
//! - **Masks**: `true` blocks a key. [`AttentionMask`] has constructors for both polarities.
//! - **Padding** is at the end of a sequence. [`pad_sequences`] adds it. It is a matter of lengths,
//!   not of ids: the mask of sources says where it is, and in labels it is [`IGNORE_INDEX`].
//! - **Labels** are what the decoder should predict: the target shifted by one token, up to and
//!   including the end symbol.
//! - **Dropout** is active in models that are made on a device with autodiff (`device.autodiff()`), but not
//!   after `freeze()`. `model.valid()` returns the model without autodiff and dropout, and `model.train()`
//!   the model with both; `to_device` changes neither.
//! - **Configurations** in JSON have all fields that are no `Option`. [`EncoderConfig`], [`DecoderConfig`]
//!   and [`LayerConfig`] reject unknown fields. The others are read as Burn reads them, which ignores
//!   these: a misspelt `Option` is not noticed; writing the configuration again shows it.
//! - **Random numbers**: [`TransformerConfig::init_seeded`] returns the same parameters on every
//!   backend. `init` of any part and dropout draw from the device's generator, which
//!   `device.seed(..)` seeds.
//! - **Half precision**: models that are made or loaded on a device after
//!   `device.configure(FloatDType::BF16)?`, before its first use in the process, have 16 bits, as do
//!   their gradients; losses are summed in f32. Training in f16 needs a loss scale, bf16 none. On
//!   flex, f32 is faster, and [`fused::bf16_matmuls`] rounds only the inputs of products.
//! - **LoRA**: Burn's `apply_lora` adds its products at every step and token; `materialize` merges them
//!   for generation and files. The merged matrices stay frozen until `unfreeze`.
//! - **Threads**: on flex, a loop of your own over a small model is faster inside
//!   [`fused::in_pool`], which generation calls itself.
//! - **Errors**: functions that check settings, token ids or files return a `Result`. Tensors of
//!   wrong shapes cause a panic, and on a CPU also ids outside the vocabulary.
//! - **Features**: `burn-train` adds `supervised`, `pytorch` the checkpoints of PyTorch, `autodiff`
//!   and `flex` fast training and fast paths on flex.
//! - **Backends**: the crate enables no backend by default. Choose one by a feature (`flex`,
//!   `ndarray`, `wgpu`, `vulkan`, `metal`, `cuda`, `rocm`) or by your own dependency on `burn`.
//!
//! # Modules
//!
//! Each module imports only from modules above it in the table. Most modules are named after a
//! concept of the paper, and their documentation names the section that describes the concept.
//!
//! | module | contents |
//! |---|---|
//! | crate root | [`TransformerConfig`] and its [`Choice`]s, errors |
//! | crate root | [`AttentionMask`], [`Vocabulary`], [`pad_sequences`], [`batches_by_length`] |
//! | [`position`] | sinusoidal, learned, rotary, relative and ALiBi positional encoding |
//! | [`norm`] | layer normalisation and RMS normalisation |
//! | [`embedding`] | the input layer: embedding and positions |
//! | [`attention`] | scaled dot-product and multi-head attention, key-value cache |
//! | [`memory`] | the encoded source and the key-value cache, which a decoder reads |
//! | [`feed_forward`], [`residual`], [`generator`] | other parts of layers and stacks |
//! | [`encoder`], [`decoder`] | the two stacks |
//! | [`model`] | [`Transformer`], the whole model |
//! | [`loss`] | [`CrossEntropy`], and [`Transformer::loss`] for trainers |
//! | `supervised` | training by burn-train, with the feature `burn-train` |
//! | [`inspect`] | attention weights of every layer, sizes, statistics, likely tokens |
//! | [`generate`] | greedy decoding, sampling and beam search, scores and alignments |
//! | [`weights`] | parameters by name, files, and the layouts of other implementations |

#![recursion_limit = "256"]

mod choice;
mod config;
mod dropout;
mod error;
mod init;
mod linear;
mod mask;
mod sequence;
mod trace;
mod vocabulary;

pub mod attention;
pub mod decoder;
pub mod embedding;
pub mod encoder;
pub mod feed_forward;
pub mod generate;
pub mod generator;
pub mod inspect;
pub mod loss;
pub mod memory;
pub mod model;
pub mod norm;
pub mod position;
pub mod residual;
#[cfg(feature = "burn-train")]
pub mod supervised;
pub mod weights;

pub use choice::Choice;
/// Fast paths and their settings, such as [`fused::bf16_matmuls`].
#[doc(no_inline)]
pub use fused;

pub use config::{
    Activation, AttentionConfig, DecoderConfig, EncoderConfig, FeedForwardConfig, GeneratorConfig,
    InputConfig, LayerConfig, NormConfig, NormKind, NormPlacement, NormVariance, PositionConfig,
    Positions, TransformerConfig, WeightTying,
};
pub use decoder::Decoder;
pub use embedding::InputLayer;
pub use encoder::Encoder;
pub use error::{ConfigError, InputError};
pub use loss::CrossEntropy;
pub use mask::AttentionMask;
pub use memory::{DecoderCache, LayerCache, Memory};
pub use model::Transformer;
pub use norm::LayerNorm;
pub use sequence::{IGNORE_INDEX, batches_by_length, check_sequences, pad_sequences};
pub use trace::LayerTrace;
pub use vocabulary::{Vocabulary, VocabularyError};

/// The examples in this crate's README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
