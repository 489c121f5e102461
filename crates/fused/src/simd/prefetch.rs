//! Asks the processor for memory that will be read soon.

/// On x86-64, asks the processor to load the cache line of element `index` into the L1 cache, if
/// the index is in bounds.
#[inline(always)]
pub(crate) fn prefetch<T>(data: &[T], index: usize) {
    ask::<T, false>(data, index);
}

/// Does the same as [`prefetch`], but loads the line into the L2 cache.
#[inline(always)]
pub(crate) fn prefetch_into_l2<T>(data: &[T], index: usize) {
    ask::<T, true>(data, index);
}

#[inline(always)]
#[allow(unsafe_code)] // This instruction cannot fail.
fn ask<T, const INTO_L2: bool>(data: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = data.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let line = std::ptr::from_ref(element).cast();
        // SAFETY: the address is that of an element.
        unsafe {
            if INTO_L2 {
                _mm_prefetch::<_MM_HINT_T1>(line)
            } else {
                _mm_prefetch::<_MM_HINT_T0>(line)
            }
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, index);
}
