//! Weights: the parameters of a module by name, and the files that hold them.
//!
//! This crate's own files are safetensors with the names that [`parameters`] returns. For the same
//! parameters, [`to_bytes`] always returns the same bytes. [`import`] also reads the files of other
//! implementations, including PyTorch checkpoints with the feature `pytorch`, and [`export`]
//! returns parameters in their layouts. [`Layout`] lists the layouts.
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

mod assemble;
mod contents;
mod error;
mod export;
mod file;
mod folder;
mod found;
mod header;
mod import;
mod int8;
mod layout;
mod metadata;
mod named;
mod options;
mod parameters;
#[cfg(feature = "pytorch")]
mod pickle;
mod positions;
#[cfg(feature = "pytorch")]
mod pytorch;
mod quantize;
mod recognise;
mod safetensors;
mod tying;

pub use contents::Contents;
pub use error::WeightsError;
pub use export::export;
pub use file::WeightsFile;
pub use folder::{ModelFolder, hugging_face_config, hugging_face_generation, read_generation};
pub use header::{ForeignObject, TensorInfo};
pub use import::{Imported, import};
pub use int8::dequantize;
pub use layout::Layout;
pub use metadata::metadata;
pub use named::{MapNamed, VisitNamed, map_named, visit_named};
pub use options::ImportOptions;
pub use parameters::{Parameters, mean, parameters, shapes, with_parameters};
pub use quantize::quantize_int8;
pub use recognise::{Recognised, recognise};
pub use safetensors::{Dtype, from_bytes, metadata_of, read_file, to_bytes, to_bytes_with, write};
