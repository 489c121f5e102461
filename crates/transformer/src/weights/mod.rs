//! Parameters by their names: out of a module, into a file, and back.
//!
//! Own files are safetensors, with the names that [`parameters`] gives: the same parameters are the
//! same bytes. [`import`] reads others', from PyTorch too, and [`export`] writes them.
//!
//! ```no_run
//! use burn::tensor::Device;
//! use transformer::weights::{ImportOptions, WeightsFile, import};
//!
//! let file = WeightsFile::open("model.pt")?;
//! let n_heads = Some(8); // weights do not show it
//! let options = ImportOptions { n_heads, ..Default::default() };
//! let model = import(&file, &options)?.transformer(&Device::flex())?;
//! # Ok::<(), transformer::weights::WeightsError>(())
//! ```

mod assemble;
mod contents;
mod error;
mod export;
mod file;
mod header;
mod import;
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
pub use header::{ForeignObject, TensorInfo};
pub use import::{Imported, import};
pub use layout::Layout;
pub use metadata::metadata;
pub use named::{MapNamed, VisitNamed, map_named, visit_named};
pub use options::ImportOptions;
pub use parameters::{Parameters, parameters, shapes, with_parameters};
pub use quantize::quantize_int8;
pub use recognise::{Recognised, recognise};
pub use safetensors::{Precision, from_bytes, to_bytes, to_bytes_with};
