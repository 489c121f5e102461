//! Tensors of a checkpoint that the trainer keeps by the names of their parameters.

use burn::tensor::{DType, Device, Tensor, TensorData};
use transformer::weights::{Parameters, WeightsError};

/// Takes a tensor of a shape out of a checkpoint's parameters, as `[n]` in f32.
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
