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
mod export;
mod file;
mod import;
mod layout;
mod named;
#[cfg(feature = "pytorch")]
mod pickle;
mod positions;
#[cfg(feature = "pytorch")]
mod pytorch;
mod quantize;
mod recognise;
mod safetensors;
mod tying;

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};

pub use export::{export, metadata};
pub use file::{ForeignObject, TensorInfo, WeightsFile};
pub use import::{Contents, ImportOptions, Imported, import};
pub use layout::Layout;
pub use named::{MapNamed, VisitNamed, map_named, visit_named};
pub use quantize::quantize_int8;
pub use recognise::{Recognised, recognise};
pub use safetensors::{Precision, from_bytes, to_bytes, to_bytes_with};

use crate::error::ConfigError;

/// Under this name a file of this crate's own layout has its model's configuration.
const CONFIG: &str = "config";

/// Parameters by name.
pub type Parameters = BTreeMap<String, TensorData>;

/// Why parameters do not fit a module, or a file holds none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// The bytes are no such file, or not all of it.
    #[error("is not a whole safetensors file ({0})")]
    NotSafetensors(String),
    /// The bytes are no PyTorch checkpoint, or not all of one.
    #[error("is not a PyTorch checkpoint that can be read ({0})")]
    PyTorch(String),
    /// Something else about the file.
    #[error("{0}")]
    File(String),
    /// Something that is no tensor and no plain container of them.
    #[error("asks for {class} at {path}{}, but only tensors and plain containers of them are read; nothing was executed", and_more(*.others))]
    Foreign {
        /// Where the first of them stands.
        path: String,
        /// The Python class or function that it asks for.
        class: String,
        /// How many more there are.
        others: usize,
    },
    /// Names of no known layout.
    #[error("has {count} tensors ({first}, ..), but none of the names by which {}", looked_for(*.layout))]
    Unrecognised {
        /// The layout that it was to be.
        layout: Option<Layout>,
        /// The first of its names.
        first: String,
        /// How many there are.
        count: usize,
    },
    /// Weights in several entries of the file.
    #[error("has weights in several entries ({entries})")]
    Ambiguous {
        /// Their names.
        entries: String,
    },
    /// A model that a layout has no place for.
    #[error("the model has {field} {value}, which the layout {layout} has no place for")]
    Layout {
        /// The layout.
        layout: Layout,
        /// The field of [`TransformerConfig`](crate::TransformerConfig).
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The number of heads was not given.
    #[error("does not show how many attention heads the model has")]
    Heads,
    /// Weights of a model that cannot be.
    #[error("is of no model that can be: {0}")]
    Config(ConfigError),
    /// Numbers of another kind than those a model computes with.
    #[error("tensor {name} is {dtype}, but must be {expected}")]
    Precision {
        /// Which tensor.
        name: String,
        /// Its type.
        dtype: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A parameter of the module that is not given.
    #[error("has no tensor {name}{}", and_more(*.others))]
    Missing {
        /// The first of them, up to three.
        name: String,
        /// How many more there are.
        others: usize,
    },
    /// A tensor that is no parameter of the module.
    #[error("has a tensor {name}{} that the model does not have", and_more(*.others))]
    Unused {
        /// The first of them, up to three.
        name: String,
        /// How many more there are.
        others: usize,
    },
    /// A parameter of another shape.
    #[error("tensor {name} has the shape {found:?}, but must have {expected:?}")]
    Shape {
        /// Which parameter.
        name: String,
        /// The module's.
        expected: Vec<usize>,
        /// What was given.
        found: Vec<usize>,
    },
}

impl WeightsError {
    fn missing<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let (name, others) = first_few(names);
        Self::Missing { name, others }
    }

    fn unused<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let (name, others) = first_few(names);
        Self::Unused { name, others }
    }

    fn io(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::File("does not exist".into()),
            _ => Self::File(format!("cannot be read ({error})")),
        }
    }
}

/// Up to three of the names, and how many there are besides.
fn first_few<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> (String, usize) {
    let mut names = names.into_iter();
    let first: Vec<S> = names.by_ref().take(3).collect();
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    (first.join(", "), names.count())
}

fn looked_for(layout: Option<Layout>) -> String {
    match layout {
        Some(layout) => format!("the layout {layout} is known"),
        None => "a layout is known".into(),
    }
}

fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    }
}

/// The module's parameters, each by its path in the module.
pub fn parameters<M: Module>(module: &M) -> Parameters {
    struct Values(Parameters);
    impl VisitNamed for Values {
        fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
            self.0.insert(name, param.val().into_data());
        }
    }
    let mut values = Values(Parameters::new());
    visit_named(module, &mut values);
    values.0
}

/// A module like `module` with these parameters, on its device and in its precision.
///
/// # Errors
///
/// If a parameter is missing, left over or of another shape.
pub fn with_parameters<M: Module>(module: &M, given: Parameters) -> Result<M, WeightsError> {
    let own = shapes(module);
    let missing: Vec<&String> = own
        .keys()
        .filter(|name| !given.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        return Err(WeightsError::missing(missing));
    }
    let unused: Vec<&String> = given
        .keys()
        .filter(|name| !own.contains_key(*name))
        .collect();
    if !unused.is_empty() {
        return Err(WeightsError::unused(unused));
    }
    for (name, expected) in &own {
        let found = given[name].shape();
        if found.as_slice() != &expected[..] {
            return Err(WeightsError::Shape {
                name: name.clone(),
                expected: expected.clone(),
                found: found.to_vec(),
            });
        }
    }
    Ok(map_named(module.clone(), &mut Replace(given)))
}

/// Puts the given tensors in the place of the module's, by name.
struct Replace(Parameters);

impl MapNamed for Replace {
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let data = self.0.remove(&name).expect("all names were compared");
        param.map(|tensor| {
            let is_trained = tensor.is_require_grad();
            let precision = tensor.dtype();
            Tensor::from_data(data, (&tensor.device(), precision)).set_require_grad(is_trained)
        })
    }
}

/// The shapes of the module's parameters, which stay on their device.
pub fn shapes<M: Module>(module: &M) -> BTreeMap<String, Vec<usize>> {
    struct Shapes(BTreeMap<String, Vec<usize>>);
    impl VisitNamed for Shapes {
        fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
            self.0.insert(name, param.shape().to_vec());
        }
    }
    let mut shapes = Shapes(BTreeMap::new());
    visit_named(module, &mut shapes);
    shapes.0
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::{Transformer, TransformerConfig, WeightTying};

    fn model(seed: u64, d_ff: usize, tying: WeightTying) -> Transformer {
        TransformerConfig::new(11, 11)
            .with_d_model(8)
            .with_n_heads(2)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1)
            .with_d_ff(d_ff)
            .with_weight_tying(tying)
            .init_seeded(seed, &Device::flex())
            .unwrap()
    }

    #[test]
    fn there_and_back_is_the_same_to_the_last_bit() {
        for tying in [WeightTying::None, WeightTying::Decoder, WeightTying::All] {
            let (one, other) = (model(1, 6, tying), model(2, 6, tying));
            let bytes = to_bytes(&parameters(&one)).unwrap();
            let read = with_parameters(&other, from_bytes(&bytes).unwrap()).unwrap();
            assert_eq!(parameters(&read), parameters(&one));
            assert_ne!(parameters(&read), parameters(&other));
            assert_eq!(to_bytes(&parameters(&read)).unwrap(), bytes);
        }
    }

    #[test]
    fn trained_parameters_stay_trained() {
        let device = Device::flex().autodiff();
        let model = TransformerConfig::new(5, 5)
            .with_d_model(4)
            .with_n_heads(1)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1)
            .with_d_ff(4)
            .init_seeded(3, &device)
            .unwrap();
        let read = with_parameters(&model, parameters(&model)).unwrap();
        let weight = read.decoder.layers[0].feed_forward.w_1.bias.clone();
        assert!(weight.unwrap().val().is_require_grad());
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let own = model(1, 6, WeightTying::None);
        let refused = |given| with_parameters(&own, given).unwrap_err().to_string();
        let other = parameters(&model(1, 7, WeightTying::None));
        let error = refused(other);
        assert!(
            error.contains("has the shape [7], but must have [6]"),
            "{error}"
        );

        let mut given = parameters(&own);
        let name = "decoder.layers.0.feed_forward.w_1.bias";
        let bias = given.remove(name).unwrap();
        assert_eq!(refused(given.clone()), format!("has no tensor {name}"));
        given.insert(name.into(), bias.clone());
        given.insert("a".into(), bias.clone());
        given.insert("b".into(), bias);
        assert_eq!(
            refused(given),
            "has a tensor a, b that the model does not have"
        );
    }

    #[test]
    fn files_that_are_cut_off_or_foreign_are_refused() {
        let bytes = to_bytes(&parameters(&model(1, 6, WeightTying::None))).unwrap();
        for length in (0..bytes.len()).step_by(53) {
            assert!(from_bytes(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(from_bytes(b"PK\x03\x04 something else, long enough").is_err());
    }
}
