//! To flex's own tensors and back.

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex,
};
use burn::tensor::{Bool, BoolStore, DType, Tensor, TensorData};

type FlexTensor = FloatTensor<Flex>;

/// The tensor itself if it is on flex, in f32, and no gradient goes through it.
pub(crate) fn float<const D: usize>(tensor: &Tensor<D>) -> Option<FlexTensor> {
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
pub(crate) fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    let tensor = FlexTensor::from_data(TensorData::new(values, shape));
    Tensor::from_dispatch(DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(tensor)),
        autodiff: DispatchAutodiffContext::Disabled,
    })
}
