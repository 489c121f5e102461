//! Tensors of zeros, in reused memory on flex.

use burn::tensor::{DType, Device, Tensor};

/// Returns a tensor of zeros.
///
/// On flex, f32 elements are in memory that earlier results of this crate have given back, and are
/// written once. `Tensor::zeros` takes new memory and writes it twice, which large caches notice.
///
/// ```
/// use burn::tensor::{DType, Device};
///
/// let x = fused::zeros([2, 3], &Device::flex(), DType::F32);
/// assert_eq!(x.into_data().iter::<f32>().collect::<Vec<_>>(), [0.0; 6]);
/// ```
pub fn zeros<const D: usize>(shape: [usize; D], device: &Device, dtype: DType) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if *device == Device::flex() && dtype == DType::F32 {
        let buffer = crate::memory::buffer::Buffer::zeros(shape.iter().product());
        return Tensor::from_data(buffer.into_data(&shape), (device, dtype));
    }
    Tensor::zeros(shape, (device, dtype))
}
