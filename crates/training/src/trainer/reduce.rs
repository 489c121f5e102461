//! Adds up the gradients of all processes of a group.

use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{AllocationProperty, Bytes, DType, Device, Tensor, TensorData};

use crate::collective::Collective;

/// Minimum number of elements of a gradient that is summed by its own call of [`Collective::sum`].
/// Smaller gradients share one call, because each call waits for all processes.
const LARGE: usize = 1 << 18;

/// How much data a process sends to the others in a step, and how long the exchanges took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes of one step: the gradients, the loss, and a flag for each trained parameter.
    pub bytes_per_step: usize,
    /// Seconds, over all steps, in which the process exchanged gradients or waited for others to do
    /// so.
    pub seconds: f64,
}

/// Returns the sums of gradients and of losses over all processes. `gradients` and `loss` are those
/// of this process; `loss` is `None` if this process has no share of the step.
///
/// A parameter that has no gradient in any process has none in the sums.
pub(super) fn reduce<M: Module>(
    group: &dyn Collective,
    module: &M,
    gradients: GradientsParams,
    loss: Option<Tensor<1>>,
    traffic: &mut Traffic,
) -> (GradientsParams, Tensor<1>) {
    let device = module.devices().remove(0).without_autodiff();
    let loss = loss.map_or(0.0, |loss| loss.into_scalar::<f32>());
    // Wait until the device has computed the gradients, so that this time does not count as
    // exchange. An error is ignored, because it shows again when the gradients are read.
    let _ = device.sync();
    let begun = Instant::now();
    let mut packing = Packing {
        group,
        gradients,
        packed: vec![loss],
        large: Vec::new(),
        sent: 0,
    };
    module.visit(&mut packing);
    let Packing {
        mut packed,
        large,
        sent,
        ..
    } = packing;
    traffic.bytes_per_step = size_of::<f32>() * (sent + packed.len());
    group.sum(&mut packed);
    let mut packed = packed.into_iter();
    let loss = packed.next().expect("the loss is first");
    let mut unpacking = Unpacking {
        packed,
        large: large.into_iter(),
        device: device.clone(),
        sums: GradientsParams::new(),
    };
    module.visit(&mut unpacking);
    traffic.seconds += begun.elapsed().as_secs_f64();
    (
        unpacking.sums,
        Tensor::from_data([loss], (&device, DType::F32)),
    )
}

/// Sends large gradients and packs small ones. Every process visits the parameters in the same
/// order.
struct Packing<'a> {
    group: &'a dyn Collective,
    gradients: GradientsParams,
    /// The loss, then an entry for each trained parameter: 1 if this process has a gradient of the
    /// parameter, or else 0. If the parameter is small, the elements of the gradient follow, or as
    /// many zeros if there is no gradient.
    packed: Vec<f32>,
    /// Sums of the large gradients.
    large: Vec<TensorData>,
    /// Number of elements of the large gradients.
    sent: usize,
}

impl ModuleVisitor for Packing<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let gradient = self.gradients.remove::<D>(param.id);
        self.packed.push(f32::from(u8::from(gradient.is_some())));
        let data = match gradient {
            Some(gradient) => gradient.into_data().convert_dtype(DType::F32),
            None => TensorData::zeros::<f32, _>(param.shape()),
        };
        if param.shape().num_elements() < LARGE {
            let elements: &[f32] = data.as_slice().expect("the data are f32");
            self.packed.extend(elements);
        } else {
            let mut data = writable(data);
            let elements: &mut [f32] = data.as_mut_slice().expect("the data are f32");
            self.sent += elements.len();
            self.group.sum(elements);
            self.large.push(data);
        }
    }
}

/// Returns data whose elements can be replaced. The memory into which a GPU has copied a tensor is
/// meant for reading only, and there is little of it, so its bytes are copied.
fn writable(data: TensorData) -> TensorData {
    let (bytes, shape, dtype) = data.into_parts();
    let bytes = match bytes.property() {
        AllocationProperty::Pinned | AllocationProperty::Device => {
            Bytes::from_bytes_vec(bytes.to_vec())
        }
        _ => bytes,
    };
    TensorData::from_bytes(bytes, shape, dtype)
}

/// Makes tensors of the sums, in the order in which the gradients were packed.
struct Unpacking {
    packed: std::vec::IntoIter<f32>,
    large: std::vec::IntoIter<TensorData>,
    device: Device,
    sums: GradientsParams,
}

impl ModuleVisitor for Unpacking {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let shape = param.shape();
        let count = shape.num_elements();
        let owners = self.packed.next().expect("each parameter is packed");
        let data = match count < LARGE {
            true => TensorData::new(self.packed.by_ref().take(count).collect(), shape),
            false => self.large.next().expect("each large gradient is summed"),
        };
        if owners > 0.0 {
            let sum = Tensor::<D>::from_data(data, (&self.device, DType::F32));
            self.sums.register::<D>(param.id, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::threads::ranks;

    /// A small and a large parameter.
    #[derive(Module, Debug)]
    struct Two {
        small: Param<Tensor<1>>,
        large: Param<Tensor<2>>,
    }

    #[test]
    fn small_and_large_gradients_are_summed() {
        const ROWS: usize = LARGE / 1024 + 1;
        let device = Device::flex().autodiff();
        let filled = |first: f32, step: f32| {
            let numbers = (0..ROWS * 1024).map(|index| first + step * (index % 7) as f32);
            Tensor::<2>::from_data(TensorData::new(numbers.collect(), [ROWS, 1024]), &device)
        };
        let two = || Two {
            small: Param::from_data([1.0, 2.0, 3.0], &device),
            large: Param::from_tensor(filled(0.0, 0.0)),
        };
        // Rank 1 has no gradient of the small parameter, and the others differ.
        let all = ranks(3, |group| {
            let (module, rank) = (two(), group.rank() as f32);
            let mut loss = (module.large.val() * filled(rank, 1.0)).sum();
            if rank != 1.0 {
                loss = loss + (module.small.val() * (rank + 1.0)).sum();
            }
            let gradients = GradientsParams::from_grads(loss.backward(), &module);
            let mut traffic = Traffic::default();
            let loss = Some(Tensor::from_data([0.5], &device.clone().without_autodiff()));
            let (mut sums, loss) = reduce(group, &module, gradients, loss, &mut traffic);
            assert_eq!(loss.into_scalar::<f32>(), 1.5);
            // The loss, two flags, and the elements.
            assert_eq!(traffic.bytes_per_step, 4 * (1 + 2 + 3 + ROWS * 1024));
            let small = sums.remove::<1>(module.small.id).unwrap().into_data();
            let large = sums.remove::<2>(module.large.id).unwrap().into_data();
            (small, large)
        });
        let expected = filled(3.0, 3.0).into_data();
        for (small, large) in all {
            assert_eq!(small, TensorData::from([4f32; 3]));
            assert_eq!(large, expected);
        }
    }
}
