//! The number format of matmuls, which is a setting of each thread.

use std::cell::Cell;
use std::marker::PhantomData;

use burn::tensor::Device;

thread_local! {
    static IS_BF16: Cell<bool> = const { Cell::new(false) };
}

/// Switches bfloat16 matmuls of the calling thread on or off until the guard is dropped. They are
/// off by default.
///
/// A bfloat16 matmul rounds its inputs to bfloat16 and sums the products in f32. All tensors stay
/// f32. Each input keeps 8 significant bits, which is a relative error of at most 1/256, unless it
/// is subnormal or rounded to infinity. A product therefore has a relative error of at most about
/// 1/128.
///
/// The setting holds for matmuls of f32 tensors on flex, forward and backward, in
/// [`linear`](crate::linear()), [`linear_transposed`](crate::linear_transposed()) and
/// [`linear_cross_entropy`](crate::linear_cross_entropy()). Attention stays f32, and so do matmuls
/// with at most 16 rows of output. Both spend most of their time on work other than multiplication.
///
/// The setting has no effect on a CPU without bfloat16 instructions (see
/// [`has_bf16_instructions`](crate::has_bf16_instructions())), where rounding would cost time and
/// gain nothing. Like [`fast_paths`](crate::fast_paths()), it holds for the calling thread and for
/// operations that it runs through [`in_pool`](crate::in_pool()). A backward pass follows the
/// setting of the thread that calls it.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let (x, weight) = (Tensor::<2>::ones([32, 2], &Device::flex()), [[1.001], [1.0]]);
/// let weight = Tensor::from_data(weight, &Device::flex());
/// let y = {
///     let _bf16 = fused::bf16_matmuls(true);
///     fused::linear(x, weight, None).into_data()
/// };
/// let y = y.iter::<f32>().next().unwrap();
/// assert_eq!(y, if fused::has_bf16_instructions() { 2.0 } else { 2.001 });
/// ```
#[must_use = "the previous setting is restored when the guard is dropped"]
pub fn bf16_matmuls(is_enabled: bool) -> Bf16Matmuls {
    Bf16Matmuls {
        before: IS_BF16.replace(is_enabled),
        not_send: PhantomData,
    }
}

/// Returns whether the matmuls of the calling thread may round their inputs to bfloat16.
pub fn has_bf16_matmuls() -> bool {
    IS_BF16.get()
}

/// Returns whether [`bf16_matmuls`] can apply to f32 tensors on this device.
///
/// Fast paths must be on, and the device must be flex, with or without autodiff. The function
/// checks neither the setting itself nor whether the CPU has bfloat16 instructions.
#[must_use]
pub fn takes_bf16_matmuls(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    return crate::fast_paths::has_fast_paths()
        && device.clone().without_autodiff() == Device::flex();
    #[cfg(not(feature = "flex"))]
    {
        let _ = device;
        false
    }
}

/// Guard of [`bf16_matmuls`] that restores the previous setting when it is dropped.
///
/// Guards must be dropped in the reverse order of their creation, as the variables of a scope are.
#[derive(Debug)]
pub struct Bf16Matmuls {
    before: bool,
    /// Makes the guard `!Send`, since it must restore the setting of the thread that created it.
    not_send: PhantomData<*const ()>,
}

impl Drop for Bf16Matmuls {
    fn drop(&mut self) {
        IS_BF16.set(self.before);
    }
}
