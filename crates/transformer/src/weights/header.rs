//! The description of what a file holds, read before any of its tensors.

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Type of its numbers: `f32`, `bf16`, `i64`, ..
    pub dtype: String,
    /// Its axes, as in the file.
    pub shape: Vec<usize>,
    /// The entry of the file's outermost dictionary that it stands in, where that is a dictionary of
    /// its own, as `model` in `{"model": {..}, "optimizer": {..}}`.
    pub group: Option<String>,
}

/// Something in a file that is neither a tensor nor a plain container of them. It has not been
/// executed, and never will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignObject {
    /// Where it stands.
    pub path: String,
    /// The Python class or function that it asks for.
    pub class: String,
}
