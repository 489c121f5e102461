//! Matmuls of bfloat16 elements with AMX. Sums are f32. A block of the output has 2 x 2 tiles, so
//! that each tile of `x` or `W` that is loaded is multiplied twice.

use std::arch::asm;
use std::ops::Range;

use super::bf16::{pair_elements, pair_rows, strided_word};
use super::packed::PACK_COLUMNS;
use super::part::{Part, SCRATCH, Start};
use crate::simd::level::Amx;
use crate::simd::tiles::{TILE, Tiles};
use crate::simd::transpose::copy_transposed;

/// Number of rows, and of columns, of a block of the output.
const BLOCK: usize = 2 * TILE;

/// Maximum number of words in each row of a packed piece of `x`. With this many, a block's rows fit
/// in the L1 cache.
const WORDS: usize = 256;

/// A block of the output, row after row.
type Block = [[f32; BLOCK]; BLOCK];

/// A tile, row after row.
type Tile = [[f32; TILE]; TILE];

fn as_tiles(words: &[f32]) -> &[Tile] {
    words.as_chunks().0.as_chunks().0
}

#[allow(unsafe_code)] // The CPU has these instructions.
pub(super) fn compute(part: Part<'_, '_, '_>, amx: Amx) {
    // SAFETY: AMX is used only if the level has AVX-512.
    unsafe { in_blocks(part, amx) }
}

#[target_feature(
    enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
)]
fn in_blocks(part: Part<'_, '_, '_>, amx: Amx) {
    let tiles = Tiles::new(amx);
    by_blocks(part, |x, w| tiles.multiply(x, w));
}

/// Computes a part of the output. `multiply` returns the product of 32 packed rows of `x` and 32
/// packed columns of `W`.
///
/// A tile has 16 words of 16 rows of `x`, or of 16 columns of `W`. A word is two bfloat16 elements.
/// The tiles of `x` alternate: for each 16 words, rows 0 to 15 come first, and then rows 16 to 31.
/// Those of `W` do not: all tiles of columns 0 to 15 come first, and then all tiles of columns 16
/// to 31.
#[inline(always)]
fn by_blocks(mut part: Part<'_, '_, '_>, multiply: impl Fn(&[Tile], &[Tile]) -> Block) {
    part.direct_sums();
    let (k, width, m) = (part.w.rows, part.y[0].len(), part.y.len());
    let depth = k.div_ceil(k.div_ceil(2 * WORDS)).next_multiple_of(2 * TILE);
    let (mut packed_x, mut packed_w) = SCRATCH.take();
    let x_size = m.next_multiple_of(BLOCK) * depth / 2;
    // Words that cannot be packed directly are first stored in scratch memory, which has room for
    // the rows of a block.
    packed_x.resize((x_size + BLOCK * depth / 2).max(packed_x.len()), 0.0);
    let (x, scratch) = packed_x.split_at_mut(x_size);
    let w_size = PACK_COLUMNS.next_multiple_of(BLOCK) * depth / 2;
    packed_w.resize(w_size.max(packed_w.len()), 0.0);
    for first in (0..k).step_by(depth) {
        let rows = first..k.min(first + depth);
        let words = rows.len().div_ceil(2).next_multiple_of(TILE);
        part.pack_x_tiles(rows.clone(), words, x, scratch);
        let x = as_tiles(&x[..m.next_multiple_of(BLOCK) * words]);
        for begin in (0..width).step_by(PACK_COLUMNS) {
            let columns = begin..width.min(begin + PACK_COLUMNS);
            let n_blocks = columns.len().div_ceil(BLOCK);
            let w = &mut packed_w[..n_blocks * BLOCK * words];
            part.pack_w_words(rows.clone(), columns, words, TILE, w, scratch);
            let w = as_tiles(w);
            for (x, row) in x.chunks_exact(2 * words / TILE).zip((0..).step_by(BLOCK)) {
                let w = w.chunks_exact(2 * words / TILE);
                for (w, column) in w.zip((begin..).step_by(BLOCK)) {
                    part.add_block(first, row, column, &multiply(x, w));
                }
            }
        }
    }
    SCRATCH.set((packed_x, packed_w));
}

impl Part<'_, '_, '_> {
    /// Packs `columns` of `x` into tiles. The rows of a block have two tiles for every 16 words.
    /// Rows beyond the part's last one are arbitrary, and words beyond the last column are zeros.
    /// `scratch` has room for the rows of a block.
    #[inline(always)]
    fn pack_x_tiles(
        &self,
        columns: Range<usize>,
        words: usize,
        packed: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (x, m, depth) = (self.x, self.y.len(), columns.len());
        for (first, tiles) in (0..m)
            .step_by(BLOCK)
            .zip(packed.chunks_exact_mut(BLOCK * words))
        {
            let rows = BLOCK.min(m - first);
            let begin = (self.first_row + first) * x.row_stride + columns.start * x.column_stride;
            let from = &x.data[begin..];
            if x.row_stride == 1 {
                let line = |i: usize| &from[i * x.column_stride..][..rows];
                for (i, to) in scratch.chunks_exact_mut(BLOCK).take(words).enumerate() {
                    if 2 * i < depth {
                        let second = (2 * i + 1 < depth).then(|| line(2 * i + 1));
                        pair_rows(line(2 * i), second, to);
                    } else {
                        to.fill(0.0)
                    }
                }
                let steps = scratch.chunks_exact(TILE * BLOCK);
                for (scratch, to) in steps.zip(tiles.chunks_exact_mut(TILE * BLOCK)) {
                    copy_transposed(scratch, BLOCK, [TILE, rows], to, TILE);
                }
                continue;
            }
            for row in 0..rows {
                let from = &from[row * x.row_stride..];
                let line = &mut scratch[..words];
                match x.column_stride {
                    1 => pair_elements(&from[..depth], line),
                    stride => {
                        for (i, to) in line.iter_mut().enumerate() {
                            *to = strided_word(from, stride, i, depth);
                        }
                    }
                }
                line[depth.div_ceil(2)..].fill(0.0);
                for (step, line) in line.as_chunks::<TILE>().0.iter().enumerate() {
                    tiles[(step * BLOCK + row) * TILE..][..TILE].copy_from_slice(line);
                }
            }
        }
    }

    /// Adds `product` to the block of the output that begins at `row` and `column`. `product` sums
    /// over the rows of `W` from row `first` on. If `first` is 0, the output is instead set to the
    /// start values plus `product`. Rows and columns beyond the part's last ones are skipped.
    #[inline(always)]
    fn add_block(&mut self, first: usize, row: usize, column: usize, product: &Block) {
        let start = match first {
            0 => self.start,
            _ => Start::Output,
        };
        for (y, product) in self.y[row..].iter_mut().zip(product) {
            let end = y.len().min(column + BLOCK);
            let y = &mut y[column..end];
            match start {
                Start::Zero => y.copy_from_slice(&product[..y.len()]),
                Start::Bias(bias) => {
                    let bias = &bias[self.first_column + column..];
                    for ((y, product), bias) in y.iter_mut().zip(product).zip(bias) {
                        *y = bias + product;
                    }
                }
                Start::Output => {
                    for (y, product) in y.iter_mut().zip(product) {
                        *y += product;
                    }
                }
            }
        }
    }
}

impl Tiles {
    /// Multiplies 32 rows of `x` by 32 columns of `W`, packed as [`by_blocks`] describes.
    #[inline(always)]
    #[allow(unsafe_code)] // The CPU has these instructions.
    fn multiply(&self, x: &[Tile], w: &[Tile]) -> Block {
        assert!(x.len() == w.len() && !x.is_empty() && x.len().is_multiple_of(2));
        let steps = x.len() / 2;
        let mut product = [[0.0; BLOCK]; BLOCK];
        // SAFETY: `self` proves that the registers have their shapes. `x` and `w` have `2 * steps`
        // tiles each. Each step reads two tiles of `x` and one tile of each half of `w`. At the
        // end, four tiles are stored in `product`.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{x} + {row}]",
                "tileloadd tmm6, [{w} + {row}]",
                "tileloadd tmm7, [{right} + {row}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{x} + {row} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {x}, 2048",
                "add {w}, 1024",
                "add {right}, 1024",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{product} + 2 * {row}], tmm0",
                "tilestored [{product} + 2 * {row} + 64], tmm1",
                "tilestored [{product} + 2 * {row} + 2048], tmm2",
                "tilestored [{product} + 2 * {row} + 2112], tmm3",
                x = inout(reg) x.as_ptr() => _,
                w = inout(reg) w.as_ptr() => _,
                right = inout(reg) w[steps..].as_ptr() => _,
                steps = inout(reg) steps => _,
                row = in(reg) TILE * size_of::<f32>(),
                product = in(reg) product.as_mut_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
        product
    }
}

#[cfg(test)]
mod tests;
