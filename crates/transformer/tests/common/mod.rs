//! Fixtures, backends, seeds and comparisons for the tests.
#![allow(dead_code)] // Each test program uses only a part of this module.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{Module, Param};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors};
use transformer::weights::{MapNamed, VisitNamed, map_named, visit_named};

/// A backend under test and its tolerances.
pub struct Backend {
    pub name: &'static str,
    pub device: Device,
    /// Maximum absolute difference of an output from the reference.
    ///
    /// In `families.rs`, it is relative to the largest element of the reference if this is above 1.
    pub output: f32,
    /// Maximum difference of a gradient from the reference, relative to the largest element of the
    /// reference.
    ///
    /// In `families.rs`, it is relative to 0.1 if all elements are smaller.
    pub gradient: f32,
}

/// Returns the backends under test, with autodiff: the CPU backends, and the GPU backends that the
/// build has.
pub fn backends() -> Vec<Backend> {
    // The tolerances allow for rounding: products in f32 are summed in a different order than in
    // PyTorch.
    let cpu = |name, device: Device| Backend {
        name,
        device: device.autodiff(),
        output: 1e-5,
        gradient: 1e-4,
    };
    // GPU shading languages allow errors of a few units in the last place in exp, tanh, division
    // and square root. Drivers may also fuse multiplications and additions.
    #[allow(unused)]
    let gpu = |name, device: Device| Backend {
        name,
        device: device.autodiff(),
        output: 1e-4,
        gradient: 1e-3,
    };
    vec![
        cpu("flex", Device::flex()),
        #[allow(deprecated)]
        cpu("ndarray", Device::ndarray()),
        #[cfg(feature = "wgpu")]
        gpu("wgpu", Device::wgpu(Default::default())),
        #[cfg(feature = "vulkan")]
        gpu("vulkan", Device::vulkan(Default::default())),
        #[cfg(feature = "cuda")]
        gpu("cuda", Device::cuda(Default::default())),
    ]
}

/// Returns the CPU backends, which are deterministic.
pub fn cpu_backends() -> Vec<Backend> {
    let mut all = backends();
    all.retain(|backend| ["flex", "ndarray"].contains(&backend.name));
    all
}

/// Seeds the random generator of a device.
///
/// The CPU backends have one generator per process. Until the returned guard is dropped, other
/// tests that call this function wait.
pub fn seed(device: &Device, seed: u64) -> MutexGuard<'static, ()> {
    static GENERATORS: Mutex<()> = Mutex::new(());
    let guard = GENERATORS.lock().unwrap_or_else(PoisonError::into_inner);
    device.seed(seed);
    guard
}

/// Tensors of one fixture file, by name.
pub struct Fixture {
    tensors: HashMap<String, TensorData>,
}

impl Fixture {
    pub fn load(name: &str) -> Self {
        // Cargo runs tests in the crate's folder. `benches/gpu.sh` runs them on another machine.
        let path = Path::new("tests/fixtures").join(format!("{name}.safetensors"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = SafeTensors::deserialize(&bytes).expect("a fixture is a safetensors file");
        let tensors = file.iter().map(|(name, view)| {
            let shape = view.shape().to_vec();
            let data = match view.dtype() {
                Dtype::F32 => TensorData::new(elements(view.data(), f32::from_le_bytes), shape),
                Dtype::I64 => TensorData::new(elements(view.data(), i64::from_le_bytes), shape),
                other => panic!("{name} is {other:?}"),
            };
            (name.to_string(), data)
        });
        Self {
            tensors: tensors.collect(),
        }
    }

    /// Returns the tensors whose names begin with `prefix.`, without this prefix in their names.
    pub fn part(&self, prefix: &str) -> Self {
        let prefix = format!("{prefix}.");
        let tensors = self
            .tensors
            .iter()
            .filter_map(|(name, data)| Some((name.strip_prefix(&prefix)?.into(), data.clone())));
        Self {
            tensors: tensors.collect(),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.tensors.keys()
    }

    pub fn data(&self, name: &str) -> TensorData {
        self.tensors
            .get(name)
            .unwrap_or_else(|| panic!("the fixture has no {name}"))
            .clone()
    }

    pub fn float<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        Tensor::from_data(self.data(name), device)
    }

    /// Returns a tensor that records its gradient, for inputs whose gradients are compared.
    pub fn leaf<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        self.float(name, device).require_grad()
    }

    pub fn int<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Int> {
        Tensor::from_data(self.data(name), device)
    }

    /// Sets each parameter of the module to the fixture's tensor `param.PATH`, where `PATH` is the
    /// path of the parameter.
    pub fn fill<M: Module>(&self, module: M, device: &Device) -> M {
        struct Fill<'a> {
            params: HashMap<String, TensorData>,
            device: &'a Device,
        }
        impl MapNamed for Fill<'_> {
            fn map<const D: usize>(
                &mut self,
                path: String,
                param: Param<Tensor<D>>,
            ) -> Param<Tensor<D>> {
                let data = self
                    .params
                    .remove(&path)
                    .unwrap_or_else(|| panic!("the fixture has no parameter {path}"));
                assert_eq!(data.shape(), &param.lazy_shape(), "shape of {path}");
                Param::initialized(
                    param.id,
                    Tensor::from_data(data, self.device).require_grad(),
                )
            }
        }
        let mut fill = Fill {
            params: self.part("param").tensors,
            device,
        };
        let module = map_named(module, &mut fill);
        let left: Vec<_> = fill.params.keys().collect();
        assert!(left.is_empty(), "the module has no {left:?}");
        module
    }

    pub fn assert_output<const D: usize>(&self, name: &str, actual: Tensor<D>, backend: &Backend) {
        assert_close(
            &format!("{name} on {}", backend.name),
            &actual.into_data(),
            &self.data(name),
            backend.output,
        );
    }

    /// Compares the gradient of an input with the fixture's tensor `grad_input.NAME`.
    pub fn assert_input_gradient<const D: usize>(
        &self,
        name: &str,
        input: &Tensor<D>,
        gradients: &Gradients,
        backend: &Backend,
    ) {
        let name = format!("grad_input.{name}");
        let actual = input.grad(gradients).expect("the input has a gradient");
        self.assert_gradient(&name, &actual.into_data(), backend);
    }

    /// Compares the gradient of every parameter with the fixture's tensor `grad.PATH`.
    pub fn assert_parameter_gradients<M: Module>(
        &self,
        module: &M,
        gradients: &Gradients,
        backend: &Backend,
    ) {
        let actual = parameter_gradients(module, gradients);
        assert_eq!(actual.len(), self.part("grad").tensors.len());
        for (path, data) in actual {
            let data = data.unwrap_or_else(|| panic!("{path} has no gradient"));
            self.assert_gradient(&format!("grad.{path}"), &data, backend);
        }
    }

    fn assert_gradient(&self, name: &str, actual: &TensorData, backend: &Backend) {
        let expected = self.data(name);
        let largest = expected.iter::<f32>().fold(0.0, |m: f32, x| m.max(x.abs()));
        assert!(
            largest > 0.0,
            "{name} is zero in the fixture: nothing to compare"
        );
        assert_close(
            &format!("{name} on {}", backend.name),
            actual,
            &expected,
            backend.gradient * largest,
        );
    }
}

fn elements<const N: usize, T>(bytes: &[u8], from: fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty());
    chunks.iter().map(|&chunk| from(chunk)).collect()
}

pub fn assert_close(name: &str, actual: &TensorData, expected: &TensorData, tolerance: f32) {
    assert_eq!(actual.shape(), expected.shape(), "shape of {name}");
    let differences = actual.iter::<f32>().zip(expected.iter::<f32>());
    let worst = differences
        .map(|(a, e)| (a - e).abs())
        .fold(0.0, |m: f32, d| {
            // `f32::max` would ignore NaN, so NaN counts as an infinite difference.
            if d.is_nan() { f32::INFINITY } else { m.max(d) }
        });
    assert!(
        worst <= tolerance,
        "{name} is {worst:e} off, more than {tolerance:e}"
    );
}

/// Returns the paths and values of all parameters, in the order of the module's fields.
pub fn parameters<M: Module>(module: &M) -> Vec<(String, TensorData)> {
    visit(module, None)
        .into_iter()
        .map(|(path, data, _)| (path, data))
        .collect()
}

/// Returns the paths and gradients of all parameters, in the order of the module's fields.
///
/// The gradient is `None` if the parameter has none.
pub fn parameter_gradients<M: Module>(
    module: &M,
    gradients: &Gradients,
) -> Vec<(String, Option<TensorData>)> {
    visit(module, Some(gradients))
        .into_iter()
        .map(|(path, _, gradient)| (path, gradient))
        .collect()
}

type Visited = (String, TensorData, Option<TensorData>);

fn visit<M: Module>(module: &M, gradients: Option<&Gradients>) -> Vec<Visited> {
    struct Visit<'a> {
        found: Vec<Visited>,
        gradients: Option<&'a Gradients>,
    }
    impl VisitNamed for Visit<'_> {
        fn visit<const D: usize>(&mut self, path: String, param: &Param<Tensor<D>>) {
            let gradient = self.gradients.and_then(|g| param.val().grad(g));
            let gradient = gradient.map(Tensor::into_data);
            self.found.push((path, param.val().into_data(), gradient));
        }
    }
    let mut visit = Visit {
        found: Vec::new(),
        gradients,
    };
    visit_named(module, &mut visit);
    visit.found
}

/// Returns the bits of all elements, for exact comparisons.
pub fn bits(data: &TensorData) -> Vec<u32> {
    data.iter::<f32>().map(f32::to_bits).collect()
}
