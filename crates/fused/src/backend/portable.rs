//! Helpers for portable backward passes, which are written by hand in Burn's own operations.
//!
//! Portable backward passes usually keep less memory than the graph that Burn's autodiff builds
//! from the forward pass, and launch fewer operations.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, BackendTensor, DispatchTensorKind, TensorMetadata};
use burn::tensor::{Shape, Tensor};

use crate::fast_paths::has_fast_paths;

/// Implements the trait of a portable operation for all backends that this crate is built with, except
/// flex.
macro_rules! on_all_backends {
    ($operation:ident) => {
        #[cfg(feature = "ndarray")]
        impl $operation for burn::backend::NdArray {}

        #[cfg(feature = "_cube")]
        impl $operation for burn::backend::Cube {}
    };
}

pub(crate) use on_all_backends;

/// Returns whether the portable operations accept the tensor. Fast paths must be on. The tensor
/// must have at least one element, must not be quantised, and must be on an autodiff device of a
/// backend that this crate is built with, other than flex. Flex has kernels in f32, and Burn's own
/// gradients in other precisions.
pub(crate) fn takes<const D: usize>(tensor: &Tensor<D>) -> bool {
    if !has_fast_paths() || !tensor.device().is_autodiff() || tensor.shape().num_elements() == 0 {
        return false;
    }
    let DispatchTensorKind::Autodiff(kind) = tensor.clone().into_dispatch().kind else {
        return false;
    };
    // The last pattern matches quantised tensors, and the tensors of all other backends.
    #[allow(unreachable_patterns)]
    match *kind {
        #[cfg(feature = "ndarray")]
        DispatchTensorKind::NdArray(BackendTensor::Autodiff(_)) => true,
        #[cfg(feature = "_cube")]
        DispatchTensorKind::Cube(BackendTensor::Autodiff(_)) => true,
        _ => false,
    }
}

/// Reshapes a tensor `[D]` to `[1, D]`.
pub(crate) fn as_row<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let width = size(&x, 0);
    B::float_reshape(x, Shape::new([1, width]))
}

/// Returns the sum of all rows of a tensor `[N, D]`, as a tensor `[D]`.
pub(crate) fn sum_rows<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let width = size(&x, 1);
    B::float_reshape(B::float_sum_dim(x, 0), Shape::new([width]))
}

pub(crate) fn size(tensor: &impl TensorMetadata, dim: usize) -> usize {
    tensor.shape()[dim]
}
