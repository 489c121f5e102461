//! Hash functions that turn keys and indices into random bits.

/// Mixes the bits of a 64-bit word as SplitMix64 does.
pub(crate) fn mix_64(x: u64) -> u64 {
    let mut x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Mixes the bits of a 32-bit word. The function is a bijection in which each bit of `x` changes
/// about half of the result's bits. Its constants are from Chris Wellons' project
/// `hash-prospector`.
#[cfg(feature = "flex")]
#[inline(always)]
pub(crate) fn mix_32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad);
    x = (x ^ (x >> 15)).wrapping_mul(0xd35a_2d97);
    x ^ (x >> 15)
}
