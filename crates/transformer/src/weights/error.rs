//! Errors of files of weights, and of parameters that do not fit a module.

use super::layout::Layout;
use crate::error::ConfigError;

/// An error in a file of weights, or parameters that do not fit a module.
///
/// An error of a file or folder on the disk is within [`Path`](Self::Path), whose message begins with its
/// path. [`without_path`](Self::without_path) returns what happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The bytes are not a whole safetensors file.
    #[error("is not a whole safetensors file ({0})")]
    NotSafetensors(String),
    /// The file is not a PyTorch checkpoint, is damaged, or is larger than a limit allows.
    #[error("is not a PyTorch checkpoint that can be read ({0})")]
    PyTorch(String),
    /// An error of the file or folder at a path.
    #[error("{}: {error}", path.display())]
    Path {
        /// The path.
        path: std::path::PathBuf,
        /// The error.
        error: Box<Self>,
    },
    /// Any other error of a file, described by this message.
    #[error("{0}")]
    File(String),
    /// A checkpoint refers to Python objects other than tensors and plain data.
    #[error("refers to {class} at {path}{}, but only tensors and plain containers are read; nothing was executed", and_more(*.others))]
    Foreign {
        /// Keys and list indices that lead to the first foreign object, joined by dots.
        path: String,
        /// Python class or function to which the first foreign object refers.
        class: String,
        /// Number of further foreign objects.
        others: usize,
    },
    /// The names of the tensors do not match the requested layout, or match no known layout.
    #[error("has {count} tensors ({first}, ..), but none of the names by which {}", looked_for(*.layout))]
    Unrecognised {
        /// The requested layout; `None` if the options request no layout.
        layout: Option<Layout>,
        /// Names of the first tensors, at most three, joined by commas.
        first: String,
        /// Number of tensors in the file.
        count: usize,
    },
    /// Several entries of the file hold weights.
    #[error("has weights in several entries ({entries})")]
    Ambiguous {
        /// Names of the entries, joined by commas.
        entries: String,
    },
    /// A layout cannot represent the model.
    #[error("the model has {field} {value}, which the layout {layout} cannot represent")]
    Layout {
        /// The layout that cannot represent the model.
        layout: Layout,
        /// Name of the field in [`TransformerConfig`](crate::TransformerConfig) whose value the
        /// layout cannot represent.
        field: &'static str,
        /// Value of the field.
        value: String,
    },
    /// The number of attention heads is neither in the file nor in the options.
    #[error("does not show how many attention heads the model has, so that n_heads must be given")]
    Heads,
    /// The configuration that follows from the file and the options is not valid.
    #[error("has weights of an invalid model: {0}")]
    Config(ConfigError),
    /// A tensor has an element type that is not supported.
    #[error("tensor {name} is {dtype}, but must be {expected}")]
    Dtype {
        /// Name of the tensor.
        name: String,
        /// Element type of the tensor.
        dtype: String,
        /// The supported element types.
        expected: &'static str,
    },
    /// A tensor has elements that are infinite or NaN, or scales that are too large.
    #[error(
        "tensor {name} has {count} of {total} elements that are not finite in f32: the model has diverged, or the file is damaged"
    )]
    NotFinite {
        /// Name of the tensor.
        name: String,
        /// Number of elements that are infinite or NaN, or of scales that are too large.
        count: usize,
        /// Number of all elements of the tensor, or of all its scales.
        total: usize,
    },
    /// A tensor is missing in the file or in the given parameters.
    #[error("has no tensor {name}{}", and_more(*.others))]
    Missing {
        /// Names of the first missing tensors, at most three, joined by commas.
        name: String,
        /// Number of further missing tensors.
        others: usize,
    },
    /// A tensor is not a parameter of the module. An import with
    /// [`allow_unused`](super::ImportOptions::allow_unused) skips such tensors.
    #[error("has a tensor {name}{} that the model does not have", and_more(*.others))]
    Unused {
        /// Names of the first unused tensors, at most three, joined by commas.
        name: String,
        /// Number of further unused tensors.
        others: usize,
    },
    /// A tensor does not have the shape of its parameter.
    #[error("tensor {name} has the shape {found:?}, but must have {expected:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape that the tensor must have.
        expected: Vec<usize>,
        /// Shape that the tensor has.
        found: Vec<usize>,
    },
}

impl WeightsError {
    /// Returns the error about missing tensors, given their names.
    pub(super) fn missing<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let (name, others) = first_few(names);
        Self::Missing { name, others }
    }

    /// Returns the error about tensors that the module does not have, given their names.
    pub(super) fn unused<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let (name, others) = first_few(names);
        Self::Unused { name, others }
    }

    /// Returns the error without the path of its file, whose message does not name the file.
    ///
    /// ```
    /// use transformer::weights::{WeightsError, WeightsFile};
    ///
    /// let error = WeightsFile::open("model.safetensors").unwrap_err();
    /// assert_eq!(error.to_string(), "model.safetensors: does not exist");
    /// assert_eq!(error.without_path(), WeightsError::File("does not exist".into()));
    /// ```
    pub fn without_path(self) -> Self {
        match self {
            Self::Path { error, .. } => *error,
            error => error,
        }
    }

    /// Returns the error of the file or folder at `path`, instead of that of a file in it.
    pub(super) fn at(self, path: &std::path::Path) -> Self {
        let (path, error) = (path.into(), Box::new(self.without_path()));
        Self::Path { path, error }
    }

    /// Returns the error about a file that cannot be read.
    pub(super) fn io(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::File("does not exist".into()),
            _ => Self::File(format!("cannot be read ({error})")),
        }
    }
}

/// Returns the first three names, joined by commas, and the number of further names.
fn first_few<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> (String, usize) {
    let mut names = names.into_iter();
    let first: Vec<S> = names.by_ref().take(3).collect();
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    (first.join(", "), names.count())
}

/// Returns the last words of the message about names that match no layout.
fn looked_for(layout: Option<Layout>) -> String {
    match layout {
        Some(layout) => format!("the layout {layout} is known"),
        None => "a layout is known".into(),
    }
}

/// Returns ` (and N more)` for the `N = others` names that an error message omits; empty for 0.
fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    }
}

/// Rejects elements that are infinite or NaN.
///
/// # Errors
///
/// An element is infinite or NaN: [`WeightsError::NotFinite`].
pub(super) fn check_finite(name: &str, elements: &[f32]) -> Result<(), WeightsError> {
    let count = elements.iter().filter(|x| !x.is_finite()).count();
    check_none(name, count, elements.len())
}

/// Checks that `count`, the number of infinite or NaN elements of the tensor `name`, is 0. `total`
/// is the number of all its elements.
///
/// # Errors
///
/// `count` is not 0: [`WeightsError::NotFinite`].
pub(super) fn check_none(name: &str, count: usize, total: usize) -> Result<(), WeightsError> {
    match count {
        0 => Ok(()),
        count => Err(WeightsError::NotFinite {
            name: name.into(),
            count,
            total,
        }),
    }
}
