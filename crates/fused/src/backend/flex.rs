//! Converts between Burn's tensors, tensors of the backend flex, and slices.

use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex,
};
use burn::tensor::{Bool, BoolStore, DType, Device, Tensor};

use crate::fast_paths::has_fast_paths;
use crate::memory::buffer::Buffer;

/// A tensor of flex, of any element type.
pub(crate) type FlexTensor = FloatTensor<Flex>;

/// Returns the flex tensor inside `tensor`. Returns `None` if fast paths are off, or if `tensor`
/// has autodiff, is not on flex, or is not f32.
pub(crate) fn float<const D: usize>(tensor: &Tensor<D>) -> Option<FlexTensor> {
    if !has_fast_paths() {
        return None;
    }
    match tensor.clone().into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) if tensor.dtype() == DType::F32 => {
            Some(tensor)
        }
        _ => None,
    }
}

/// Returns the flex tensor inside a mask. Returns `None` if the mask is not on flex, or does not
/// have one byte per element.
pub(crate) fn bool<const D: usize>(tensor: &Tensor<D, Bool>) -> Option<BoolTensor<Flex>> {
    match tensor.clone().into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Bool(tensor))
            if matches!(
                tensor.dtype(),
                DType::Bool(BoolStore::Native | BoolStore::U8)
            ) =>
        {
            Some(tensor)
        }
        _ => None,
    }
}

/// Turns a buffer into a flex tensor of the given shape.
pub(crate) fn primitive(values: Buffer, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(values.into_data(shape))
}

/// Turns a buffer into a flex tensor with one dimension.
#[cfg(feature = "autodiff")]
pub(crate) fn vector(values: Buffer) -> FlexTensor {
    let len = values.len();
    primitive(values, &[len])
}

/// Returns `tensor` if all its strides are positive, which a matmul requires. Otherwise, returns a
/// contiguous copy of `tensor`.
pub(crate) fn strided(tensor: FlexTensor) -> FlexTensor {
    if tensor.layout().strides().iter().all(|&stride| stride > 0) {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// Returns the elements of a contiguous tensor.
pub(crate) fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("the tensor is contiguous")
}

/// Returns the elements of an integer tensor as `i64`.
pub(crate) fn ids(tensor: IntTensor<Flex>) -> Vec<i64> {
    tensor.into_data().iter().collect()
}

/// Lets `f` change all elements of a tensor. If the tensor is not contiguous or shares its memory,
/// `f` changes a contiguous copy, which then replaces the tensor.
pub(crate) fn with_mut<T>(tensor: &mut FlexTensor, f: impl FnOnce(&mut [f32]) -> T) -> T {
    if !tensor.layout().is_contiguous() {
        *tensor = tensor.to_contiguous();
    }
    let (start, end) = tensor
        .layout()
        .contiguous_offsets()
        .expect("the tensor is contiguous");
    if tensor.is_unique() {
        f(&mut tensor.storage_mut()[start..end])
    } else {
        let mut values = Buffer::arbitrary(end - start);
        values.copy_from_slice(&tensor.storage()[start..end]);
        let found = f(&mut values);
        *tensor = primitive(values, tensor.layout().shape());
        found
    }
}

/// Wraps a tensor of flex in Burn's tensor type, without autodiff.
pub(crate) fn from_primitive<const D: usize>(tensor: FlexTensor) -> Tensor<D> {
    Tensor::from_dispatch(DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(tensor)),
        autodiff: DispatchAutodiffContext::Disabled,
    })
}

/// Unwraps the flex tensor inside `tensor`. [`takes`] must accept `tensor`, which must have no
/// autodiff.
///
/// # Panics
///
/// If the tensor is not on flex, is quantised, or has autodiff.
pub(crate) fn into_primitive<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    match tensor.into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => tensor,
        other => panic!("{other:?} is not a tensor of flex without autodiff"),
    }
}

/// Returns whether the fast paths accept the tensor: fast paths are on, and the tensor is f32 on
/// flex. A tensor with autodiff also needs the feature `autodiff`.
pub(crate) fn takes<const D: usize>(tensor: &Tensor<D>) -> bool {
    let device = tensor.device();
    let has_backward = cfg!(feature = "autodiff") || !device.is_autodiff();
    has_fast_paths()
        && has_backward
        && tensor.dtype() == DType::F32
        && device.without_autodiff() == Device::flex()
}

/// Turns a buffer into Burn's tensor type, with the given shape and without autodiff.
pub(crate) fn tensor<const D: usize>(values: Buffer, shape: [usize; D]) -> Tensor<D> {
    from_primitive(primitive(values, &shape))
}
