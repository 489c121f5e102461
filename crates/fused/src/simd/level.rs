//! Chooses the instruction-set level of all vector code.
//!
//! By default, the level is the best that the CPU supports, chosen at the first use. The
//! environment variable `FUSED_SIMD` forces a lower one, so that tests can run all code paths on
//! one machine. Its values are `scalar`, on x86-64 also `avx2` and `avx512`, and on aarch64 also
//! `neon`.
//!
//! The level holds for the whole process. All threads must use the same one, since results are
//! reproducible bit by bit only within a level. A setting of the calling thread would not reach the
//! threads of rayon's pool, on which kernels run.

use std::sync::LazyLock;

use pulp::Arch;

/// Name of the environment variable that forces a level.
const VARIABLE: &str = "FUSED_SIMD";

static ARCH: LazyLock<Arch> = LazyLock::new(|| match std::env::var(VARIABLE) {
    Err(_) => Arch::new(),
    Ok(name) => by_name(&name)
        .unwrap_or_else(|| panic!("{VARIABLE} is {name:?}, which is not a level of this CPU")),
});

/// Returns the instruction-set level. Its method `dispatch` runs vector code.
///
/// # Panics
///
/// If the environment variable names a level that the CPU does not have.
#[inline]
pub(crate) fn arch() -> Arch {
    *ARCH
}

/// Returns the AVX2 instructions, or `None` if the level does not include them.
#[cfg(all(feature = "flex", target_arch = "x86_64"))]
#[inline]
pub(crate) fn avx2() -> Option<pulp::x86::V3> {
    match arch() {
        Arch::Scalar => None,
        Arch::V3(simd) => Some(simd),
        _ => pulp::x86::V3::try_new(),
    }
}

fn by_name(name: &str) -> Option<Arch> {
    match name {
        "scalar" => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::x86::V4::try_new().map(Arch::V4),
        #[cfg(target_arch = "aarch64")]
        "neon" => pulp::aarch64::Neon::try_new().map(Arch::Neon),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        assert!(matches!(by_name("scalar"), Some(Arch::Scalar)));
        assert!(by_name("mmx").is_none());
    }
}
