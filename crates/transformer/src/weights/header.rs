//! The contents of a file of weights, as its header describes them.

/// Element type of a matrix of 8-bit integers with scales.
pub(super) const INT8: &str = "int8";

/// Description of a tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type: `f32`, `bf16`, `i64` and so on. `int8` is a matrix of 8-bit integers together
    /// with its scales, which are not listed as a tensor of their own.
    pub dtype: String,
    /// Shape, as in the file.
    pub shape: Vec<usize>,
    /// Key, in a checkpoint's outermost dictionary, of the inner dictionary that holds the tensor:
    /// `model` in `{"model": {..}, "optimizer": {..}}`. `None` for tensors that are not in such an
    /// inner dictionary, and in safetensors files.
    pub group: Option<String>,
}

/// A Python object in a file that is neither a tensor nor plain data. It is never executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignObject {
    /// Keys and list indices that lead to the object, joined by dots, such as `training.scheduler`.
    pub path: String,
    /// Python class or function to which the object refers.
    pub class: String,
}
