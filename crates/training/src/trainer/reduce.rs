//! What the processes of a group send each other in a step: gradients, and updated parameters.

use std::time::Instant;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{AllocationProperty, Bytes, DType, Device, Tensor, TensorData};

use super::division::{Division, LARGE};
use super::optimizer::with_values;
use crate::collective::Collective;

/// Returns the sums of gradients and of losses over all processes. `gradients` and `loss` are those
/// of this process; `loss` is `None` if this process has no share of the step. Adds the time of the
/// exchange to `seconds`.
///
/// A parameter that has no gradient in any process has none in the sums. In the gradient of a
/// divided parameter, only the elements of this process's part are sums.
pub(super) fn reduce<M: Module>(
    group: &dyn Collective,
    division: Division,
    module: &M,
    gradients: GradientsParams,
    loss: Option<Tensor<1>>,
    seconds: &mut f64,
) -> (GradientsParams, Tensor<1>) {
    let device = module.devices().remove(0).without_autodiff();
    let loss = loss.map_or(0.0, |loss| loss.into_scalar::<f32>());
    // Wait until the device has computed the gradients, so that this time does not count as
    // exchange. An error is ignored, because it shows again when the gradients are read.
    let _ = device.sync();
    let begun = Instant::now();
    let mut packing = Packing {
        group,
        division,
        gradients,
        packed: vec![loss],
        large: Vec::new(),
    };
    module.visit(&mut packing);
    group.sum(&mut packing.packed);
    let mut packed = packing.packed.into_iter();
    let loss = packed.next().expect("the loss is first");
    let mut unpacking = Unpacking {
        packed,
        large: packing.large.into_iter(),
        device: device.clone(),
        sums: GradientsParams::new(),
    };
    module.visit(&mut unpacking);
    *seconds += begun.elapsed().as_secs_f64();
    let loss = Tensor::from_data([loss], (&device, DType::F32));
    (unpacking.sums, loss)
}

/// Sends large gradients and packs small ones. Every process visits the parameters in the same
/// order.
struct Packing<'a> {
    group: &'a dyn Collective,
    division: Division,
    gradients: GradientsParams,
    /// The loss, then an entry for each trained parameter: 1 if this process has a gradient of the
    /// parameter, or else 0. If the parameter is small, the elements of the gradient follow, or as
    /// many zeros if there is no gradient.
    packed: Vec<f32>,
    /// Sums of the large gradients.
    large: Vec<TensorData>,
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
            if self.division.divides(elements.len()) {
                self.group.sum_parts(elements)
            } else {
                self.group.sum(elements)
            }
            self.large.push(data);
        }
    }
}

/// Returns data whose elements can be replaced. The bytes of a GPU tensor may be in pinned host
/// memory, which is scarce and meant for reading only, or still on the device. Such bytes are
/// copied to ordinary memory.
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

/// Builds a tensor from each sum, in the order in which the gradients were packed.
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
        let data = if count < LARGE {
            TensorData::new(self.packed.by_ref().take(count).collect(), shape)
        } else {
            self.large.next().expect("each large gradient is summed")
        };
        if owners > 0.0 {
            let sum = Tensor::<D>::from_data(data, (&self.device, DType::F32));
            self.sums.register::<D>(param.id, sum);
        }
    }
}

/// Returns a module in which each part of a divided parameter has the values of the process that
/// updated this part. Adds the time of the exchange to `seconds`.
pub(super) fn share<M: Module>(
    group: &dyn Collective,
    division: Division,
    module: M,
    seconds: &mut f64,
) -> M {
    let begun = Instant::now();
    let module = module.map(&mut Sharing { group, division });
    *seconds += begun.elapsed().as_secs_f64();
    module
}

struct Sharing<'a> {
    group: &'a dyn Collective,
    division: Division,
}

impl ModuleMapper for Sharing<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let count = param.shape().num_elements();
        if !param.is_require_grad() || !self.division.divides(count) {
            return param;
        }
        with_values(param, |tensor| {
            let device = tensor.device();
            let mut data = writable(tensor.into_data());
            let elements = data.as_mut_slice().expect("parameters are f32");
            self.group.share_parts(elements);
            Tensor::from_data(data, (&device, DType::F32))
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::optim::GradientsAccumulator;
    use transformer::weights::Parameters;

    use super::super::optimizer::Optimizer;
    use super::super::sums::Squares;
    use super::*;
    use crate::collective::Alone;
    use crate::collective::tests::ranks;
    use crate::config::OptimizerConfig;

    /// A module with a trained small and a trained large parameter, a large parameter without
    /// gradients, and a frozen large parameter.
    #[derive(Module, Debug)]
    struct Four {
        small: Param<Tensor<1>>,
        large: Param<Tensor<2>>,
        unused: Param<Tensor<2>>,
        frozen: Param<Tensor<2>>,
    }

    const ROWS: usize = LARGE / 1024 + 1;

    fn filled(first: f32, step: f32, device: &Device) -> Tensor<2> {
        let numbers = (0..ROWS * 1024).map(|index| first + step * (index % 7) as f32);
        Tensor::from_data(TensorData::new(numbers.collect(), [ROWS, 1024]), device)
    }

    fn four(device: &Device) -> Four {
        Four {
            small: Param::from_data([1.0, 2.0, 3.0], device),
            large: Param::from_tensor(filled(0.0, 0.01, device)),
            unused: Param::from_tensor(filled(5.0, 1.0, device)),
            frozen: Param::from_tensor(filled(6.0, 1.0, device)).set_require_grad(false),
        }
    }

    /// Returns the gradients of one rank, which differ between the ranks. Rank 1 has no gradient of
    /// the small parameter.
    fn gradients(module: &Four, rank: usize, device: &Device) -> GradientsParams {
        let rank = rank as f32;
        let mut loss = (module.large.val() * filled(rank, 1.0, device)).sum();
        if rank != 1.0 {
            loss = loss + (module.small.val() * (rank + 1.0)).sum();
        }
        GradientsParams::from_grads(loss.backward(), module)
    }

    #[test]
    fn small_and_large_gradients_are_summed() {
        let device = Device::flex().autodiff();
        for is_divided in [false, true] {
            let all = ranks(3, |group| {
                let module = four(&device);
                let division = if is_divided {
                    Division::of(group, &module)
                } else {
                    Division::NONE
                };
                let gradients = gradients(&module, group.rank(), &device);
                let mut seconds = 0.0;
                let loss = Tensor::from_data([0.5], &device.clone().without_autodiff());
                let (mut sums, loss) = reduce(
                    group,
                    division,
                    &module,
                    gradients,
                    Some(loss),
                    &mut seconds,
                );
                assert_eq!(loss.into_scalar::<f32>(), 1.5);
                assert!(sums.remove::<2>(module.unused.id).is_none());
                let small = sums.remove::<1>(module.small.id).unwrap().into_data();
                let large = sums.remove::<2>(module.large.id).unwrap();
                let part = division.part(ROWS * 1024);
                (
                    small,
                    part.clone(),
                    large.flatten::<1>(0, 1).slice([part]).into_data(),
                )
            });
            let expected = filled(3.0, 3.0, &device).flatten::<1>(0, 1);
            let mut end = 0;
            for (small, part, large) in all {
                assert_eq!(small, TensorData::from([4f32; 3]));
                assert_eq!(large, expected.clone().slice([part.clone()]).into_data());
                if is_divided {
                    assert_eq!(part.start, end)
                } else {
                    assert_eq!(part, 0..ROWS * 1024)
                }
                end = part.end;
            }
            assert_eq!(end, ROWS * 1024);
        }
    }

    /// Results of several steps: the parameters, the gradient norms, and the moments.
    type Left = ([TensorData; 4], Vec<f32>, Parameters);

    /// Takes two steps with a group. In each step, the processes of the group together have the
    /// gradients of three ranks. `state` holds the moments after `begin` earlier steps; `None` for
    /// moments of zero.
    fn steps(
        group: &dyn Collective,
        config: &OptimizerConfig,
        module: Four,
        begin: usize,
        state: Option<Parameters>,
        device: &Device,
    ) -> (Four, Left) {
        let mut optimizer = Optimizer::new(config);
        let division = Division::of(group, &module);
        if let Some(state) = state {
            let shapes = transformer::weights::shapes(&module);
            let loaded = optimizer.load_state(state, begin, &shapes, device, division);
            loaded.unwrap();
        }
        let (mut module, mut norms, mut seconds) = (module, Vec::new(), 0.0);
        for _ in 0..2 {
            let mut own = GradientsAccumulator::new();
            for rank in (0..3).filter(|rank| rank % group.size() == group.rank()) {
                own.accumulate(&module, gradients(&module, rank, device));
            }
            let own = own.grads();
            let (sums, _) = reduce(group, division, &module, own, None, &mut seconds);
            let known = optimizer
                .needs_norm(1.0)
                .then(|| Squares::of(&module, &sums, division).norm(group));
            let norm = known.as_ref();
            let (updated, squares) = optimizer.step(0.1, module, sums, norm, 1.0, division);
            module = share(group, division, updated, &mut seconds);
            let norm = known.unwrap_or_else(|| squares.norm(group));
            norms.push(norm.into_scalar::<f32>());
        }
        let data = [
            module.small.val().into_data(),
            module.large.val().into_data(),
            module.unused.val().into_data(),
            module.frozen.val().into_data(),
        ];
        let state = optimizer.state(group);
        (module, (data, norms, state))
    }

    #[test]
    fn divided_updates_equal_those_of_one_process() {
        let device = Device::flex().autodiff();
        for clip_norm in [None, Some(2.0)] {
            let config = OptimizerConfig {
                clip_norm,
                ..OptimizerConfig::default()
            };
            let (module, (first, norms, state)) =
                steps(&Alone, &config, four(&device), 0, None, &device);
            assert_eq!(state.len(), 4);
            // Training continues from the moments of one process, with one or with several
            // processes.
            let loaded = Some(state.clone());
            let (_, later) = steps(&Alone, &config, module.clone(), 2, loaded, &device);
            for size in [2, 3] {
                let all = ranks(size, |group| {
                    let (module, left) = steps(group, &config, four(&device), 0, None, &device);
                    let loaded = Some(state.clone());
                    (left, steps(group, &config, module, 2, loaded, &device).1)
                });
                for (rank, (left, left_later)) in all.into_iter().enumerate() {
                    let expected = [(&first, &norms, &state), (&later.0, &later.1, &later.2)];
                    for ((data, norms, state), expected) in
                        [left, left_later].into_iter().zip(expected)
                    {
                        assert_eq!(&data, expected.0);
                        let norms = norms.iter().zip(expected.1);
                        for (norm, expected) in norms {
                            assert!((norm / expected - 1.0).abs() < 1e-6, "{norm}, {expected}");
                        }
                        let of_rank_0 = (rank == 0).then(|| expected.2.clone());
                        assert_eq!(state, of_rank_0.unwrap_or_default());
                    }
                }
            }
        }
    }
}
