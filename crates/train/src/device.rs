//! Chooses and opens the backend and the device that run the computations.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, anyhow};
use burn::tensor::{Device, Tensor};
use clap::ValueEnum;
use training::config::{ExecutionConfig, Precision};
use training::error::UsageError;
use training::trainer::configure;

use crate::args::name_of;
use crate::group::Group;
use crate::terminal::output;

/// A backend, whose name is also that of the Cargo feature. Cargo features select the backends of a
/// build. The first variant that the build includes is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// NVIDIA GPU
    Cuda,
    /// AMD GPU
    Rocm,
    /// Apple GPU
    Metal,
    /// GPU through Vulkan (SPIR-V)
    Vulkan,
    /// GPU through wgpu (WGSL)
    Wgpu,
    /// CPU, ndarray
    Ndarray,
    /// CPU, pure Rust
    Flex,
}

impl Backend {
    /// Returns whether the backend computes on the CPU and keeps tensors in the machine's memory.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Ndarray | Self::Flex)
    }

    /// Returns the function that opens a device by its index, or the default device; `None` if
    /// this build does not include the backend.
    #[allow(unreachable_patterns)] // with every feature on, no backend is missing
    fn opener(self) -> Option<fn(Option<usize>) -> Device> {
        #[cfg(any(feature = "cuda", feature = "rocm"))]
        use burn::tensor::DeviceIndex;
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
        use burn::tensor::DeviceKind;

        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
        fn kind(index: Option<usize>) -> DeviceKind {
            index.map_or(DeviceKind::DefaultDevice, DeviceKind::DiscreteGpu)
        }
        #[cfg(any(feature = "cuda", feature = "rocm"))]
        fn number(index: Option<usize>) -> DeviceIndex {
            index.map_or(DeviceIndex::Default, DeviceIndex::Specified)
        }

        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => Some(|index| Device::cuda(number(index))),
            #[cfg(feature = "rocm")]
            Self::Rocm => Some(|index| Device::rocm(number(index))),
            #[cfg(feature = "metal")]
            Self::Metal => Some(|index| Device::metal(kind(index))),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Some(|index| Device::vulkan(kind(index))),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Some(|index| Device::wgpu(kind(index))),
            #[cfg(feature = "ndarray")]
            #[allow(deprecated)] // deprecated by Burn, kept for comparisons
            Self::Ndarray => Some(|_| Device::ndarray()),
            #[cfg(feature = "flex")]
            Self::Flex => Some(|_| Device::flex()),
            _ => None,
        }
    }

    /// Returns whether this build includes the backend.
    pub fn is_built_in(self) -> bool {
        self.opener().is_some()
    }

    /// Returns the backends of this build: GPU backends before CPU backends, and flex last. The
    /// first one is the default.
    pub fn built_in() -> impl Iterator<Item = Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|backend| backend.is_built_in())
    }
}

fn names(backends: impl Iterator<Item = Backend>) -> String {
    backends.map(name_of).collect::<Vec<_>>().join(", ")
}

/// A backend and the index of one of its devices: `NAME[:INDEX]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceName {
    pub backend: Backend,
    /// Index of the device; `None` for the backend's default.
    pub index: Option<usize>,
}

impl From<Backend> for DeviceName {
    /// Returns the name of the backend's default device.
    fn from(backend: Backend) -> Self {
        let index = None;
        Self { backend, index }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self.backend))?;
        self.index.map_or(Ok(()), |index| write!(f, ":{index}"))
    }
}

impl FromStr for DeviceName {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let wrong =
            |expected: String| UsageError::setting(ExecutionConfig::backend, text, expected);
        let mut parts = text.splitn(2, ':');
        let (name, index) = (parts.next().unwrap_or_default(), parts.next());
        let backend = Backend::from_str(name, false).map_err(|_| {
            let all = Backend::value_variants().iter().copied();
            wrong(format!("must be one of {}", names(all)))
        })?;
        if !backend.is_built_in() {
            let built_in = names(Backend::built_in());
            return Err(wrong(format!(
                "this build has {built_in} only; build it with `--features {name}`"
            )));
        }
        let expected = "the device after the colon must be a number from 0";
        let index = index.map(str::parse).transpose();
        let index = index.map_err(|_| wrong(expected.into()))?;
        if backend.is_cpu() && index.is_some_and(|index: usize| index > 0) {
            return Err(wrong(format!("{name} has one device, number 0")));
        }
        Ok(Self { backend, index })
    }
}

impl DeviceName {
    /// Parses the value of `--backend`; `None` selects the default of this build.
    ///
    /// # Errors
    ///
    /// An unknown name, an invalid device index, a backend that is not in this build, or a build
    /// without backends.
    pub fn choose(flag: Option<&str>) -> Result<Self, UsageError> {
        let none = "this build has no backend; build it with `--features flex`";
        match (flag, Backend::built_in().next()) {
            (Some(name), _) => name.parse(),
            (None, Some(first)) => Ok(first.into()),
            (None, None) => Err(UsageError::new("--backend", "(none)", none)),
        }
    }

    /// Returns the device for this process of a group.
    ///
    /// If several processes run on a machine, the index of the GPU is the local rank of the process
    /// (its number on that machine, from 0), unless the name has an index or the backend computes
    /// on the CPU.
    pub fn of_process(self, group: &Group) -> Self {
        let (rank, processes) = group.collective().on_machine();
        let is_shared = processes > 1 && self.index.is_none() && !self.backend.is_cpu();
        Self {
            index: if is_shared { Some(rank) } else { self.index },
            ..self
        }
    }

    /// Opens the device for computations in f32.
    ///
    /// # Errors
    ///
    /// If the hardware or its driver does not work.
    pub fn open(self) -> Result<Device> {
        self.open_for(Precision::F32)
    }

    /// Opens the device, configures it for computations in `precision`, and tests it with a small
    /// operation.
    ///
    /// In bf16, the configuration depends on whether the fast paths (kernels of the crate `fused`)
    /// are on in the calling thread, so switch them on or off before this call.
    ///
    /// # Errors
    ///
    /// If the hardware or its driver does not work, or does not support the precision.
    pub fn open_for(self, precision: Precision) -> Result<Device> {
        let open = self.backend.opener().expect("the backend is in this build");
        let first_operation = || {
            let mut device = open(self.index);
            configure(precision, &mut device)?;
            let sum = Tensor::<1>::ones([2], &device).sum().into_data();
            Ok((device, sum.iter::<f32>().sum::<f32>()))
        };
        // A backend without a driver panics, in most cases in a thread of its own. The first panic
        // of any thread is reported as the reason.
        let first_panic = Arc::new(OnceLock::new());
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new({
            let first_panic = Arc::clone(&first_panic);
            move |panic| {
                let message = panic.payload_as_str().unwrap_or("the backend panicked");
                let line = message.lines().next().unwrap_or_default().to_string();
                first_panic.get_or_init(|| line);
            }
        }));
        let outcome = catch_unwind(AssertUnwindSafe(first_operation));
        std::panic::set_hook(hook);
        let panicked = first_panic.get().cloned();
        let reason = match outcome {
            Ok(Err(error)) => return Err(UsageError::into(error)),
            Ok(Ok((device, 2.0))) => {
                note_bf16(precision, &device);
                return Ok(device);
            }
            Ok(Ok((_, sum))) => format!("1 + 1 is {sum} there"),
            Err(_) => panicked.unwrap_or("it did not start".into()),
        };
        Err(anyhow!("no usable device for --backend {self}: {reason}"))
    }
}

/// Says that bf16 is no faster than f32 if the vector instructions cannot multiply bf16 numbers.
fn note_bf16(precision: Precision, device: &Device) {
    let is_bf16 = precision == Precision::Bf16 && fused::takes_bf16_matmuls(device);
    if is_bf16 && !fused::has_bf16_instructions() {
        let level = fused::simd_level();
        output::warn(&format!(
            "the vector instructions in use ({level}) cannot multiply bfloat16 numbers, which \
             needs AVX-512 BF16 or AMX: --precision bf16 computes in f32, which is as fast as \
             --precision f32"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        let device: DeviceName = "flex".parse().unwrap();
        assert_eq!((device.backend, device.index), (Backend::Flex, None));
        let device: DeviceName = "flex:0".parse().unwrap();
        assert_eq!(device.to_string(), "flex:0");
    }

    #[test]
    fn wrong_names_are_explained() {
        let error = |name: &str| name.parse::<DeviceName>().unwrap_err().to_string();
        assert!(error("nonsense").contains("must be one of cuda, rocm"));
        assert!(error("flex:1").contains("one device"));
        assert!(error("flex:x").contains("number"));
        assert!(error("").contains("must be one of"));
    }

    #[test]
    fn an_opened_device_works() {
        let device = DeviceName::choose(Some("flex")).unwrap().open().unwrap();
        assert!(!device.is_autodiff());
    }
}
