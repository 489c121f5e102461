//! Asks the processor for memory that will be read soon.

/// On x86-64, asks the processor to load the cache line of element `index`, if the index is in
/// bounds.
#[inline(always)]
#[allow(unsafe_code)] // This instruction cannot fail.
pub(crate) fn prefetch<T>(data: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = data.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of an element.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, index);
}
