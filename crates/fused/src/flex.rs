//! To flex's own tensors and back.

use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex,
};
use burn::tensor::{Bool, BoolStore, DType, Device, Tensor};

use crate::buffers::Buffer;

pub(crate) type FlexTensor = FloatTensor<Flex>;

/// The tensor itself if it is on flex, in f32, and no gradient goes through it.
pub(crate) fn float<const D: usize>(tensor: &Tensor<D>) -> Option<FlexTensor> {
    if !crate::is_enabled() {
        return None;
    }
    match tensor.clone().into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) if tensor.dtype() == DType::F32 => {
            Some(tensor)
        }
        _ => None,
    }
}

/// The mask itself if it is on flex, a byte an element.
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

/// A new tensor of these values.
pub(crate) fn primitive(values: Buffer, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(values.into_data(shape))
}

/// The same with one dimension.
#[cfg(feature = "autodiff")]
pub(crate) fn vector(values: Buffer) -> FlexTensor {
    let len = values.len();
    primitive(values, &[len])
}

/// The tensor with its own strides if a product can take them: no dimension is repeated or
/// backwards.
pub(crate) fn strided(tensor: FlexTensor) -> FlexTensor {
    match tensor.layout().strides().iter().all(|&stride| stride > 0) {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

/// The elements of a contiguous tensor.
pub(crate) fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("it is contiguous")
}

/// The elements of a tensor of ids.
pub(crate) fn ids(tensor: IntTensor<Flex>) -> Vec<i64> {
    tensor.into_data().iter().collect()
}

/// Changes all elements, in place where nobody else holds them.
pub(crate) fn with_mut<T>(tensor: &mut FlexTensor, f: impl FnOnce(&mut [f32]) -> T) -> T {
    if !tensor.layout().is_contiguous() {
        *tensor = tensor.to_contiguous();
    }
    let (start, end) = tensor
        .layout()
        .contiguous_offsets()
        .expect("it is contiguous");
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

/// The tensor of Burn's that this one stands for.
pub(crate) fn from_primitive<const D: usize>(tensor: FlexTensor) -> Tensor<D> {
    Tensor::from_dispatch(DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(tensor)),
        autodiff: DispatchAutodiffContext::Disabled,
    })
}

/// The inverse, for tensors that this crate [`takes`], without autodiff.
pub(crate) fn into_primitive<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    match tensor.into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => tensor,
        other => panic!("{other:?} is no tensor of flex without autodiff"),
    }
}

/// Whether the operations of this crate's extension take the tensor, with or without gradients.
pub(crate) fn takes<const D: usize>(tensor: &Tensor<D>) -> bool {
    let device = tensor.device();
    let has_backward = cfg!(feature = "autodiff") || !device.is_autodiff();
    crate::is_enabled()
        && has_backward
        && tensor.dtype() == DType::F32
        && device.without_autodiff() == Device::flex()
}

/// A new tensor of Burn's.
pub(crate) fn tensor<const D: usize>(values: Buffer, shape: [usize; D]) -> Tensor<D> {
    from_primitive(primitive(values, &shape))
}
