//! Restores tensors from a checkpoint by the names of their parameters.

use burn::tensor::{DType, Device, Tensor, TensorData};
use transformer::weights::{Parameters, WeightsError};

/// Takes the tensor `name` out of a checkpoint's parameters, and returns it in f32, flattened to
/// `[n]`. The stored tensor must have the shape `shape`.
pub(super) fn take(
    parameters: &mut Parameters,
    name: String,
    shape: &[usize],
    device: &Device,
) -> Result<Tensor<1>, WeightsError> {
    let Some(data) = parameters.remove(&name) else {
        return Err(WeightsError::Missing { name, others: 0 });
    };
    if data.shape().as_slice() != shape {
        let (expected, found) = (shape.to_vec(), data.shape().to_vec());
        return Err(WeightsError::Shape {
            name,
            expected,
            found,
        });
    }
    let data = TensorData::new(data.iter::<f32>().collect(), [data.num_elements()]);
    let device = device.clone().without_autodiff();
    Ok(Tensor::from_data(data, (&device, DType::F32)))
}
