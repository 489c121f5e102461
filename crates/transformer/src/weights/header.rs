//! The contents of a file of weights, as its header describes them.

/// Element type of a matrix of 8-bit integers with scales.
pub(super) const INT8: &str = "int8";

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type: `f32`, `bf16`, `i64` and so on. `int8` is a matrix of 8-bit integers together
    /// with its scales, which are not listed as a tensor of their own.
    pub dtype: String,
    /// Shape, as in the file.
    pub shape: Vec<usize>,
    /// Entry of a checkpoint's outermost dictionary that holds the tensor, such as `model` in
    /// `{"model": {..}, "optimizer": {..}}`. The entry is a dictionary itself. `None` for all other
    /// tensors, and in safetensors files.
    pub group: Option<String>,
}

/// An object in a file that is neither a tensor nor a plain container. It is never executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignObject {
    /// Path of the object in the file.
    pub path: String,
    /// Python class or function to which the object refers.
    pub class: String,
}
