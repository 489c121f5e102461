//! How the processes of a group divide the updates of large parameters.
//!
//! On flex, each process updates one part of each large parameter, and has the moments of this part
//! only, as in the first stage of ZeRO (Rajbhandari et al. 2020). Then it sends its part to the
//! others. Together, the processes therefore read and write moments only once. On other backends,
//! every process updates all parameters, because sending them would move them through host memory.

use std::ops::Range;

use burn::module::Module;
use burn::tensor::Device;

use crate::collective::{Collective, part};

/// Minimum number of elements of a parameter that is divided. The gradient of such a parameter is
/// summed by a [`Collective`] call of its own. Smaller gradients share one call, because each call
/// waits for all processes.
pub(super) const LARGE: usize = 1 << 18;

/// The rank of a process, and the number of processes that divide the updates.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    rank: usize,
    size: usize,
}

impl Division {
    /// The process updates all elements of all parameters.
    pub const NONE: Self = Self { rank: 0, size: 1 };

    /// Returns how the processes of a group divide the updates of a module's parameters.
    pub fn of<M: Module>(group: &dyn Collective, module: &M) -> Self {
        if is_flex(&module.devices()[0]) {
            let (rank, size) = (group.rank(), group.size());
            Self { rank, size }
        } else {
            Self::NONE
        }
    }

    /// Returns whether a parameter with `count` elements is divided.
    pub(super) fn divides(self, count: usize) -> bool {
        self.size > 1 && count >= LARGE
    }

    /// Returns which of the `count` elements of a parameter this process updates.
    pub(super) fn part(self, count: usize) -> Range<usize> {
        if self.divides(count) {
            part(count, self.rank, self.size)
        } else {
            0..count
        }
    }
}

#[cfg(feature = "flex")]
fn is_flex(device: &Device) -> bool {
    device.clone().without_autodiff() == Device::flex()
}

#[cfg(not(feature = "flex"))]
fn is_flex(_: &Device) -> bool {
    false
}
