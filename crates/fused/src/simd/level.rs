//! Chooses the instruction-set level of all vector code.
//!
//! By default, the level is the best that the CPU and the system support, chosen at the first use.
//! The environment variable `FUSED_SIMD` forces a lower one, so that tests can run the code of all
//! levels that a machine supports. Its values are `scalar`, on x86-64 also `avx2`, `avx512` and
//! `amx`, and on aarch64 also `neon`. The level `amx` is `avx512` with matmuls of bfloat16 elements
//! and of integers of 8 bits in AMX's tiles.
//!
//! In WebAssembly, the build decides: the level is `simd128` if the module was built with these
//! instructions, else `scalar`.
//!
//! The level holds for the whole process. All threads must use the same one, since results are
//! reproducible bit by bit only within a level. A setting of the calling thread would not reach the
//! threads of rayon's pool, on which kernels run.

use std::sync::LazyLock;

use pulp::Arch;

use crate::variable::{EnvironmentError, read};

const VARIABLE: &str = "FUSED_SIMD";

/// The name of a level, as a value of `FUSED_SIMD`, and its vector instructions.
type Level = (&'static str, Arch);

static LEVEL: LazyLock<Result<Level, EnvironmentError>> = LazyLock::new(|| {
    let available = available();
    let choices: Vec<_> = available.iter().map(|&level| (level.0, level)).collect();
    let best = *available.last().expect("every CPU runs scalar code");
    Ok(read(VARIABLE, &choices)?.unwrap_or(best))
});

/// Returns the names of the instruction-set levels that the CPU and the system support, the best
/// one last.
///
/// ```
/// assert_eq!(fused::simd_levels()[0], "scalar");
/// ```
#[must_use]
pub fn simd_levels() -> Vec<&'static str> {
    available().into_iter().map(|(name, _)| name).collect()
}

/// Returns the name of the instruction-set level in use.
///
/// # Panics
///
/// If the environment variable `FUSED_SIMD` has a value that is not in [`simd_levels`].
///
/// ```
/// assert!(fused::simd_levels().contains(&fused::simd_level()));
/// ```
#[must_use]
pub fn simd_level() -> &'static str {
    level().0
}

/// Returns the vector instructions of the process's instruction-set level. Their method `dispatch`
/// runs vector code.
///
/// # Panics
///
/// If the environment variable `FUSED_SIMD` has a value that is not in [`simd_levels`].
#[cfg(not(target_arch = "wasm32"))]
#[inline]
pub(crate) fn arch() -> Arch {
    level().1
}

/// Returns the vector instructions of the build. A WebAssembly module cannot have instructions that
/// its engine lacks, so there is nothing to choose, and no code for the other level.
#[cfg(target_arch = "wasm32")]
#[inline]
pub(crate) const fn arch() -> Arch {
    #[cfg(target_feature = "simd128")]
    return Arch::Simd128(pulp::wasm::Simd128 {
        simd128: pulp::core_arch::wasm::Simd128::new_unchecked(),
    });
    #[cfg(not(target_feature = "simd128"))]
    return Arch::Scalar;
}

#[inline]
fn level() -> &'static Level {
    match &*LEVEL {
        Ok(level) => level,
        Err(error) => panic!("{error}"),
    }
}

/// Returns an error if the environment variable `FUSED_SIMD` has a value that is not in
/// [`simd_levels`].
pub(crate) fn check() -> Result<(), EnvironmentError> {
    LEVEL.clone().map(|_| ())
}

/// Returns whether the level and the CPU have instructions that multiply bfloat16 numbers (AVX-512
/// BF16 or AMX).
///
/// Without them, [`bf16_matmuls`](crate::bf16_matmuls()) has no effect.
///
/// # Panics
///
/// On x86-64, if the environment variable `FUSED_SIMD` has a value that is not in [`simd_levels`].
#[must_use]
pub fn has_bf16_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return Amx::of_level().is_some()
        || matches!(arch(), Arch::V4(_)) && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Returns the AVX2 instructions, or `None` if the process's instruction-set level does not include
/// them.
#[cfg(all(feature = "flex", target_arch = "x86_64"))]
#[inline]
pub(crate) fn avx2() -> Option<pulp::x86::V3> {
    match arch() {
        Arch::Scalar => None,
        Arch::V3(simd) => Some(simd),
        _ => pulp::x86::V3::try_new(),
    }
}

/// Returns the levels that the CPU and the system support, the best one last.
fn available() -> Vec<Level> {
    let all = [
        ("scalar", Some(Arch::Scalar)),
        #[cfg(target_arch = "x86_64")]
        ("avx2", pulp::x86::V3::try_new().map(Arch::V3)),
        #[cfg(target_arch = "x86_64")]
        ("avx512", pulp::x86::V4::try_new().map(Arch::V4)),
        #[cfg(target_arch = "x86_64")]
        (
            AMX,
            pulp::x86::V4::try_new()
                .filter(|_| amx::is_usable())
                .map(Arch::V4),
        ),
        #[cfg(target_arch = "aarch64")]
        ("neon", pulp::aarch64::Neon::try_new().map(Arch::Neon)),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        ("simd128", Some(arch())),
    ];
    all.into_iter()
        .filter_map(|(name, arch)| Some((name, arch?)))
        .collect()
}

#[cfg(target_arch = "x86_64")]
const AMX: &str = "amx";

/// A value of this type proves that the level is `amx`, so the CPU and the system support AMX for
/// bfloat16 and for integers of 8 bits.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amx(());

#[cfg(target_arch = "x86_64")]
impl Amx {
    /// Returns a value if the process's instruction-set level is `amx`, else `None`.
    #[inline]
    pub fn of_level() -> Option<Self> {
        (level().0 == AMX).then_some(Self(()))
    }
}

#[cfg(target_arch = "x86_64")]
mod amx {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;
    use std::sync::LazyLock;

    /// Number of the system call `arch_prctl` of Linux.
    const ARCH_PRCTL: i64 = 158;

    /// Argument of `arch_prctl` that asks Linux for permission to use more of the processor's
    /// registers, such as the tiles of AMX.
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;

    /// Number by which Linux identifies the tile registers of AMX in this request.
    const TILE_DATA: i64 = 18;

    /// Returns whether the CPU has AMX, and Linux lets this process use it. The
    /// process must ask for permission, since Linux then saves 8 KiB more for each thread.
    pub(super) fn is_usable() -> bool {
        static IS_USABLE: LazyLock<bool> = LazyLock::new(|| has_amx() && is_allowed());
        *IS_USABLE
    }

    fn has_amx() -> bool {
        const BF16_TILES_INT8: u32 = 1 << 22 | 1 << 24 | 1 << 25;
        __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & BF16_TILES_INT8 == BF16_TILES_INT8
    }

    #[allow(unsafe_code)] // This system call changes no memory.
    fn is_allowed() -> bool {
        if !cfg!(target_os = "linux") {
            return false;
        }
        let result: i64;
        // SAFETY: the registers below are the arguments of the system call and those that it
        // changes. The call changes no memory of the process.
        unsafe {
            asm!(
                "syscall",
                inout("rax") ARCH_PRCTL => result,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        result == 0
    }
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use super::*;

    #[test]
    fn the_last_level_is_the_best() {
        let (_, last) = *available().last().unwrap();
        assert_eq!(discriminant(&last), discriminant(&Arch::new()));
    }

    #[test]
    fn the_variable_chooses_the_level() {
        let last = *simd_levels().last().unwrap();
        let chosen = std::env::var(VARIABLE);
        assert_eq!(simd_level(), chosen.as_deref().unwrap_or(last));
    }
}
