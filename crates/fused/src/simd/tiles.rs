//! The registers of AMX, which are tiles of 16 rows of 64 bytes. The intrinsics are not stable, so
//! instructions are written in assembly.

use std::arch::asm;

use super::level::Amx;

/// Number of rows of a tile, and number of 32-bit words in each row.
pub(crate) const TILE: usize = 16;

/// The shapes of the tile registers, in the layout that the instruction `ldtilecfg` reads: the
/// number of the layout, which is 1, then the bytes per row and the number of rows of each
/// register.
#[repr(C, align(64))]
struct Shapes {
    format: [u8; 16],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Guard that sets up the tile registers of the calling thread, and releases them when it is
/// dropped.
pub(crate) struct Tiles(());

impl Tiles {
    #[allow(unsafe_code)] // The CPU has these instructions.
    pub fn new(_: Amx) -> Self {
        let mut shapes = Shapes {
            format: [0; 16],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        shapes.format[0] = 1;
        shapes.row_bytes[..8].fill((TILE * size_of::<f32>()) as u16);
        shapes.rows[..8].fill(TILE as u8);
        // SAFETY: `Amx` proves that the CPU has the instruction and that the system allows it. The
        // shapes are valid, and 64 bytes long.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(readonly, nostack, preserves_flags));
        }
        Self(())
    }
}

impl Drop for Tiles {
    /// Releases the registers, so that the system need not save them when it switches threads.
    #[allow(unsafe_code)] // The CPU has this instruction.
    fn drop(&mut self) {
        // SAFETY: `self` proves that the CPU has the instruction.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
    }
}
