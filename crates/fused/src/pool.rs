//! Where a long computation runs.

use burn::tensor::Device;

/// Runs `f`, for flex on one of the threads that share its work: handing work over from outside
/// costs more than many operations of a small model.
pub fn in_pool<R: Send>(device: &Device, f: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "flex")]
    if device.clone().without_autodiff() == Device::flex() {
        return rayon::scope(|_| f());
    }
    let _ = device;
    f()
}
