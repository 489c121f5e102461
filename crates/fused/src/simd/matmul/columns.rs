//! The matmul path for few rows of `x` and a matrix `W` whose columns are contiguous in memory.
//! An example of `W` is an output layer's weight that is tied to the embedding table. Blocks of `W`
//! are transposed in registers instead of being packed.

use pulp::x86::V3;
use pulp::{NullaryFnOnce, Simd, cast};

use super::part::{Part, Start};
use crate::memory::arena::CACHE_LINE;
use crate::simd::prefetch::prefetch;
use crate::simd::transpose::avx2::{BLOCK, transpose};

/// Maximum number of rows of a part on this path. For more rows, packing `W` is faster.
const FEW: usize = 8;

/// Returns whether this path can compute a part.
pub(super) fn is_by_columns(part: &Part<'_, '_, '_>) -> bool {
    let (x, w) = (part.x, part.w);
    part.y.len() <= FEW && w.row_stride == 1 && w.column_stride >= w.rows && x.column_stride == 1
}

/// Computes a part with AVX2.
pub(super) struct ByColumns<'a, 'y, 'z> {
    pub simd: V3,
    pub part: Part<'a, 'y, 'z>,
}

impl NullaryFnOnce for ByColumns<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        self.part.direct_sums();
        let width = self.part.y[0].len();
        let mut column = 0;
        while width - column >= BLOCK {
            self.block(column);
            column += BLOCK;
        }
        for column in column..width {
            self.column(column);
        }
    }
}

// Closures of iterators would be compiled without the vector instructions.
#[allow(clippy::needless_range_loop)]
impl ByColumns<'_, '_, '_> {
    /// Computes a block of columns of the output, from `column` on.
    ///
    /// A block reads one stream of memory for each column. Two blocks at a time would hide the
    /// latency of multiply-adds, but were slower where `W` comes from memory: their 16 streams can
    /// lie a page apart.
    #[inline(always)]
    fn block(&mut self, column: usize) {
        let (simd, w, k) = (self.simd, self.part.w, self.part.w.rows);
        let begin = (self.part.first_column + column) * w.column_stride;
        let mut sums = [[0.0; BLOCK]; FEW];
        for row in 0..self.part.y.len() {
            for i in 0..BLOCK {
                sums[row][i] = self.start(row, column + i);
            }
        }
        let whole = k - k % BLOCK;
        for first in (0..whole).step_by(BLOCK) {
            let mut block = [[0.0; BLOCK]; BLOCK];
            for i in 0..BLOCK {
                let begin = begin + i * w.column_stride + first;
                block[i].copy_from_slice(&w.data[begin..][..BLOCK]);
            }
            // Prefetches a part of the next block, in the order of memory if no gaps lie between
            // columns. The processor by itself would prefetch eight streams, which is slower.
            for i in (0..BLOCK * BLOCK).step_by(CACHE_LINE) {
                prefetch(w.data, begin + BLOCK * (w.column_stride + first) + i);
            }
            let block = transpose(simd, block);
            for row in 0..self.part.y.len() {
                let x = &self.part.x_row(row)[first..][..BLOCK];
                let mut sum = cast(sums[row]);
                for i in 0..BLOCK {
                    sum = simd.mul_add_e_f32s(simd.splat_f32s(x[i]), cast(block[i]), sum);
                }
                sums[row] = cast(sum);
            }
        }
        for row in 0..self.part.y.len() {
            let x = &self.part.x_row(row)[..k];
            for i in 0..BLOCK {
                let column = &w.data[begin + i * w.column_stride..][..k];
                for at in whole..k {
                    sums[row][i] = x[at].mul_add(column[at], sums[row][i]);
                }
            }
            self.part.y[row][column..][..BLOCK].copy_from_slice(&sums[row]);
        }
    }

    /// Computes one column of the output.
    #[inline(always)]
    fn column(&mut self, column: usize) {
        let w = self.part.w;
        let begin = (self.part.first_column + column) * w.column_stride;
        for row in 0..self.part.y.len() {
            let x = &self.part.x_row(row)[..w.rows];
            let mut sum = self.start(row, column);
            for (x, w) in x.iter().zip(&w.data[begin..][..w.rows]) {
                sum = x.mul_add(*w, sum);
            }
            self.part.y[row][column] = sum;
        }
    }

    /// Returns the value to which the products of a row and a column are added.
    #[inline(always)]
    fn start(&self, row: usize, column: usize) -> f32 {
        match self.part.start {
            Start::Zero => 0.0,
            Start::Bias(bias) => bias[self.part.first_column + column],
            Start::Output => self.part.y[row][column],
        }
    }
}
