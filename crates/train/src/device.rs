//! Which backend runs: a name and an index, from the command line or from the build.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, anyhow};
use burn::tensor::{Device, Tensor};

use crate::error::UsageError;

/// A backend that a feature flag brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// NVIDIA GPUs.
    Cuda,
    /// AMD GPUs.
    Rocm,
    /// Apple GPUs.
    Metal,
    /// GPUs through Vulkan, shaders as SPIR-V.
    Vulkan,
    /// GPUs through wgpu, shaders as WGSL.
    Wgpu,
    /// CPU, by the ndarray crate.
    Ndarray,
    /// CPU, pure Rust.
    Flex,
}

impl Backend {
    /// All of them, in the order in which a build that has several takes one.
    pub const ALL: [Self; 7] = [
        Self::Cuda,
        Self::Rocm,
        Self::Metal,
        Self::Vulkan,
        Self::Wgpu,
        Self::Ndarray,
        Self::Flex,
    ];

    /// Its name, which is also its feature flag.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Metal => "metal",
            Self::Vulkan => "vulkan",
            Self::Wgpu => "wgpu",
            Self::Ndarray => "ndarray",
            Self::Flex => "flex",
        }
    }

    /// What it runs on, in words.
    pub fn description(self) -> &'static str {
        match self {
            Self::Cuda => "NVIDIA GPU",
            Self::Rocm => "AMD GPU",
            Self::Metal => "Apple GPU",
            Self::Vulkan => "GPU through Vulkan (SPIR-V)",
            Self::Wgpu => "GPU through wgpu (WGSL)",
            Self::Ndarray => "CPU, ndarray",
            Self::Flex => "CPU, pure Rust",
        }
    }

    /// Whether this build has it.
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Rocm => cfg!(feature = "rocm"),
            Self::Metal => cfg!(feature = "metal"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Ndarray => cfg!(feature = "ndarray"),
            Self::Flex => cfg!(feature = "flex"),
        }
    }

    /// The one that the build was made for: what was asked for beyond flex, GPU before CPU.
    pub fn of_build() -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.is_built_in())
    }

    fn is_cpu(self) -> bool {
        matches!(self, Self::Ndarray | Self::Flex)
    }
}

fn names(backends: impl Iterator<Item = Backend>) -> String {
    backends.map(Backend::name).collect::<Vec<_>>().join(", ")
}

/// A backend and, where there are several devices, which one: `NAME[:INDEX]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The backend.
    pub backend: Backend,
    /// The device's number on that backend; none is the backend's own choice.
    pub index: Option<usize>,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.backend.name())?;
        match self.index {
            Some(index) => write!(f, ":{index}"),
            None => Ok(()),
        }
    }
}

impl FromStr for DeviceName {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let wrong = |expected: String| UsageError::new("--backend", text, expected);
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index)),
            None => (text, None),
        };
        let backend = Backend::ALL
            .into_iter()
            .find(|backend| backend.name() == name)
            .ok_or_else(|| {
                wrong(format!(
                    "must be one of {}",
                    names(Backend::ALL.into_iter())
                ))
            })?;
        if !backend.is_built_in() {
            let built_in = Backend::ALL.into_iter().filter(|b| b.is_built_in());
            return Err(wrong(format!(
                "this build has {} only; build it with `--features {name}`",
                names(built_in)
            )));
        }
        let index = index
            .map(|index| {
                index
                    .parse()
                    .map_err(|_| wrong("the device after the colon must be a number from 0".into()))
            })
            .transpose()?;
        if backend.is_cpu() && index.is_some_and(|index| index > 0) {
            return Err(wrong(format!("{name} has one device, number 0")));
        }
        Ok(Self { backend, index })
    }
}

impl DeviceName {
    /// What `--backend` says, or the backend that the build was made for.
    ///
    /// # Errors
    ///
    /// An unknown name, a backend that this build lacks, or a build without any.
    pub fn choose(flag: Option<&str>) -> Result<Self, UsageError> {
        match flag {
            Some(name) => name.parse(),
            None => Ok(Self {
                backend: Backend::of_build().ok_or_else(|| {
                    UsageError::new(
                        "--backend",
                        "(none)",
                        "this build has no backend; build it with `--features flex`",
                    )
                })?,
                index: None,
            }),
        }
    }

    /// The device, after a first small operation on it.
    ///
    /// # Errors
    ///
    /// If the hardware or its driver is not there.
    pub fn open(self) -> Result<Device> {
        self.open_as(|_| Ok(()))
    }

    /// The device, configured by `prepare` before there is anything on it, and after a first small
    /// operation.
    ///
    /// # Errors
    ///
    /// If the hardware or its driver is not there, or `prepare` fails.
    pub fn open_as(
        self,
        prepare: impl FnOnce(&mut Device) -> Result<(), UsageError>,
    ) -> Result<Device> {
        let first_operation = || {
            let mut device = self.device();
            prepare(&mut device)?;
            let sum = Tensor::<1>::ones([2], &device).sum().into_data();
            Ok((device, sum.iter::<f32>().sum::<f32>()))
        };
        // Backends panic where there is no driver, most of them in a thread of their own: what
        // went wrong is in the first panic, whoever's it is.
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
        match outcome {
            Ok(Err(error)) => return Err(UsageError::into(error)),
            Ok(Ok((device, 2.0))) => Ok(device),
            Ok(Ok((_, sum))) => Err(anyhow!("1 + 1 is {sum} there")),
            Err(_) => Err(anyhow!(
                "{}",
                first_panic.get().map_or("it did not start", String::as_str)
            )),
        }
        .with_context(|| format!("no usable device for --backend {self}"))
    }

    #[allow(unreachable_patterns)] // with every feature on, no backend is missing
    fn device(self) -> Device {
        #[cfg(any(feature = "cuda", feature = "rocm"))]
        use burn::tensor::DeviceIndex;
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
        use burn::tensor::DeviceKind;

        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "metal"))]
        let kind = || match self.index {
            Some(index) => DeviceKind::DiscreteGpu(index),
            None => DeviceKind::DefaultDevice,
        };
        #[cfg(any(feature = "cuda", feature = "rocm"))]
        let index = || {
            self.index
                .map_or(DeviceIndex::Default, DeviceIndex::Specified)
        };

        match self.backend {
            #[cfg(feature = "cuda")]
            Backend::Cuda => Device::cuda(index()),
            #[cfg(feature = "rocm")]
            Backend::Rocm => Device::rocm(index()),
            #[cfg(feature = "metal")]
            Backend::Metal => Device::metal(kind()),
            #[cfg(feature = "vulkan")]
            Backend::Vulkan => Device::vulkan(kind()),
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => Device::wgpu(kind()),
            #[cfg(feature = "ndarray")]
            #[allow(deprecated)] // Burn 0.22 still has it, and people compare with it
            Backend::Ndarray => Device::ndarray(),
            #[cfg(feature = "flex")]
            Backend::Flex => Device::flex(),
            missing => unreachable!("{} is not in this build", missing.name()),
        }
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
    fn wrong_names_say_what_is_right() {
        let error = |name: &str| name.parse::<DeviceName>().unwrap_err().to_string();
        assert!(error("nonsense").contains("must be one of cuda, rocm"));
        assert!(error("flex:1").contains("one device"));
        assert!(error("flex:x").contains("number"));
        assert!(error("").contains("must be one of"));
    }

    #[test]
    fn the_device_works() {
        let device = DeviceName::choose(Some("flex")).unwrap().open().unwrap();
        assert!(!device.is_autodiff());
    }
}
