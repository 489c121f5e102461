//! What can go wrong with weights and their files.

use super::layout::Layout;
use crate::error::ConfigError;

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
    pub(super) fn missing<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let (name, others) = first_few(names);
        Self::Missing { name, others }
    }

    pub(super) fn unused<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let (name, others) = first_few(names);
        Self::Unused { name, others }
    }

    pub(super) fn io(error: &std::io::Error) -> Self {
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
