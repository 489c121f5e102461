//! Matmul `x W + b` in f32 with vector instructions, for few or many rows of `x`.
//!
//! In f32, every output element is one chain of multiply-adds `((b + x_0 w_0) + x_1 w_1) + ...` in
//! this order, whichever path computes it. A row's result therefore does not depend on the number
//! of rows.
//!
//! A [`part`] holds the rows and columns of the output that one thread computes. In f32, there are
//! three paths for a part:
//!
//! - [`columns`] transposes blocks of `W` in registers. With AVX2 or better, parts with at most 8
//!   rows take this path if the columns of `W` and the rows of `x` are contiguous in memory, and
//!   the column stride of `W` is at least its number of rows.
//! - [`direct`] reads `W` in place. Parts with at most 16 rows take this path if the rows of `W`
//!   are contiguous in memory, and the rows or the columns of `x` are, too.
//! - [`packed`] copies pieces of `W` into the order in which it reads them. All other parts take
//!   this path.
//!
//! While [`bf16_matmuls`](crate::bf16_matmuls()) are on and the CPU has instructions for them,
//! matmuls of more than 16 rows, except those of attention, round `x` and `W` to bfloat16. With
//! AMX, their parts take the path [`amx`], which multiplies whole tiles. Otherwise, their parts
//! take the packed path, which then multiplies pairs of elements (see [`bf16`]).

mod ahead;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bf16;
#[cfg(target_arch = "x86_64")]
mod columns;
mod direct;
mod format;
pub(crate) mod matrix;
mod pack;
mod packed;
mod part;

use pulp::{Simd, WithSimd};

use self::direct::{FEW, is_direct};
use self::format::F32;
pub use self::matrix::Matrix;
use self::packed::PACK_COLUMNS;
use self::part::{AVX2_LANES, AVX2_ROWS, AVX2_VECTORS, Part, ROWS, SCRATCH, Start, Sums, VECTORS};
use super::level::arch;
use crate::memory::arena::CACHE_LINE;
use crate::parallel::{self, current_num_threads};
use crate::precision::has_bf16_matmuls;

/// Number of multiply-adds below which a second thread costs more than it saves.
const PARALLEL: usize = 1 << 17;

/// Minimum number of output rows per thread for which the threads split the rows. With fewer rows,
/// they split the columns.
const ROWS_PER_THREAD: usize = 64;

/// Computes `y = x W + b`. While [`bf16_matmuls`](crate::bf16_matmuls()) are on, `x` and `W` are
/// rounded to bfloat16 as in [`linear`](crate::linear()).
///
/// # Shapes
///
/// - x: `[M, K]`
/// - w: `[K, N]`
/// - bias: `[N]`
/// - y: `[M, N]`, row after row; its old elements are not read
///
/// # Panics
///
/// If the sizes do not fit together.
pub fn matmul(x: Matrix<'_>, w: Matrix<'_>, bias: Option<&[f32]>, y: &mut [f32]) {
    let (m, n) = (x.rows, w.columns);
    assert!(
        x.columns == w.rows && bias.is_none_or(|bias| bias.len() == n) && y.len() == m * n,
        "[{m}, {}] times [{}, {n}] in {} elements",
        x.columns,
        w.rows,
        y.len()
    );
    if y.is_empty() {
        return;
    }
    if w.rows == 0 {
        match bias {
            Some(bias) => y.chunks_mut(n).for_each(|y| y.copy_from_slice(bias)),
            None => y.fill(0.0),
        }
    } else {
        fill(x, w, bias.map_or(Start::Zero, Start::Bias), y, None);
    }
}

/// Computes `y = x W` and the sum of all rows of `W`, `[N]`. In f32, the packed path sums each
/// piece of `W` while the piece is in the cache.
///
/// # Panics
///
/// If the sizes do not fit together.
#[cfg(feature = "autodiff")]
pub(crate) fn matmul_and_sums(x: Matrix<'_>, w: Matrix<'_>, y: &mut [f32], sums: &mut [f32]) {
    assert!(
        x.columns == w.rows && sums.len() == w.columns && y.len() == x.rows * w.columns,
        "[{}, {}] times [{}, {}] in {} elements, and {} sums",
        x.rows,
        x.columns,
        w.rows,
        w.columns,
        y.len(),
        sums.len()
    );
    sums.fill(0.0);
    if w.rows == 0 {
        y.fill(0.0);
    } else if x.rows > 0 && w.columns > 0 {
        fill(x, w, Start::Zero, y, Some(sums));
    } else {
        for (column, sum) in sums.iter_mut().enumerate() {
            let column = w.data[column * w.column_stride..].iter();
            *sum = column.step_by(w.row_stride).take(w.rows).sum();
        }
    }
}

/// Computes `y += x W` on the calling thread. The rows of `y` may be anywhere in memory.
#[cfg(feature = "autodiff")]
pub(crate) fn add_matmul(x: Matrix<'_>, w: Matrix<'_>, y: &mut [&mut [f32]]) {
    on_this_thread(x, w, Start::Output, y);
}

/// Computes `y = x W` on the calling thread. The rows of `y` may be anywhere in memory.
pub(crate) fn set_matmul(x: Matrix<'_>, w: Matrix<'_>, y: &mut [&mut [f32]]) {
    on_this_thread(x, w, Start::Zero, y);
}

fn on_this_thread(x: Matrix<'_>, w: Matrix<'_>, start: Start<'_>, y: &mut [&mut [f32]]) {
    assert!(x.rows == y.len() && x.columns == w.rows && w.rows > 0 && !y.is_empty());
    compute(Part {
        x,
        first_row: 0,
        w,
        first_column: 0,
        start,
        y,
        sums: Sums::new(),
    });
}

/// The block of the output and the column sums of `W` that one thread computes.
struct Share<'a> {
    first_row: usize,
    first_column: usize,
    y: Vec<&'a mut [f32]>,
    sums: Sums<'a>,
}

/// Computes `y = start + x W`, on several threads if the matmul is large. Also adds all rows of `W`
/// to `sums`, if given.
fn fill(x: Matrix<'_>, w: Matrix<'_>, start: Start<'_>, y: &mut [f32], sums: Option<&mut [f32]>) {
    let (m, k, n) = (x.rows, w.rows, w.columns);
    let threads = match m * k * n {
        work if work < PARALLEL => 1,
        _ => current_num_threads(),
    };
    let (high, wide) = if m >= threads * ROWS_PER_THREAD {
        (threads, 1)
    } else {
        (1, threads)
    };
    let height = m.div_ceil(high).next_multiple_of(ROWS);
    // The width of each share but the last is a whole number of cache lines.
    let width = n.div_ceil(wide).next_multiple_of(CACHE_LINE);
    let mut parts: Vec<Share<'_>> = Vec::with_capacity(threads);
    for (y, first_row) in y.chunks_mut(height * n).zip((0..).step_by(height)) {
        let first_part = parts.len();
        let columns = (0..n).step_by(width);
        parts.extend(columns.map(|first_column| Share {
            first_row,
            first_column,
            y: Vec::with_capacity(height),
            sums: Sums::new(),
        }));
        for row in y.chunks_mut(n) {
            for (part, segment) in parts[first_part..].iter_mut().zip(row.chunks_mut(width)) {
                part.y.push(segment);
            }
        }
    }
    if let Some(sums) = sums {
        // Several parts can have the same columns of `W`. The column sums are computed in pieces,
        // which are distributed among these parts in turn.
        let (n_wide, n_high) = (n.div_ceil(width), m.div_ceil(height));
        for (index, sums) in sums.chunks_mut(width).enumerate() {
            for (piece, sums) in sums.chunks_mut(PACK_COLUMNS).enumerate() {
                let part = &mut parts[piece % n_high * n_wide + index];
                part.sums.push((piece * PACK_COLUMNS, sums));
            }
        }
    }
    // `m` is the number of rows of the whole output. A part's number of rows depends on the number
    // of threads, and the result must not.
    let is_bf16 = has_bf16_matmuls() && m > FEW;
    let run = |mut share: Share<'_>| {
        let part = Part {
            x,
            first_row: share.first_row,
            w,
            first_column: share.first_column,
            start,
            y: &mut share.y,
            sums: share.sums,
        };
        if is_bf16 {
            compute_bf16(part)
        } else {
            compute(part)
        }
    };
    parallel::for_each(parts.into_iter(), run);
}

/// Computes a part at the process's instruction-set level. The code of all levels is large, so it
/// is compiled once here instead of into every caller.
#[inline(never)]
fn compute(part: Part<'_, '_, '_>) {
    #[cfg(target_arch = "x86_64")]
    if columns::is_by_columns(&part)
        && let Some(simd) = super::level::avx2()
    {
        return simd.vectorize(columns::ByColumns { simd, part });
    }
    arch().dispatch(part);
}

/// Computes a part in bfloat16 if the CPU has the instructions, else in f32.
fn compute_bf16(part: Part<'_, '_, '_>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(amx) = super::level::Amx::of_level() {
        return amx::compute(part, amx);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(format) = avx512::Bf16::of_level() {
        return avx512::compute(part, format);
    }
    compute(part);
}

impl WithSimd for Part<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if is_direct(&self) {
            self.direct_sums();
            self.direct(simd);
        } else {
            // `SCRATCH.with` would need a closure, which would be compiled without the vector
            // instructions.
            let (mut packed_x, mut packed_w) = SCRATCH.take();
            let (x, w) = (&mut packed_x, &mut packed_w);
            // Of two branches on a constant, only one is compiled.
            if const { S::F32_LANES == AVX2_LANES } {
                self.packed::<S, F32, AVX2_ROWS, { AVX2_ROWS / 2 }, AVX2_VECTORS>(simd, F32, x, w);
            } else if cfg!(target_arch = "wasm32") {
                self.packed::<S, F32, { ROWS / 2 }, { ROWS / 2 }, VECTORS>(simd, F32, x, w);
            } else {
                self.packed::<S, F32, ROWS, { ROWS / 2 }, VECTORS>(simd, F32, x, w);
            }
            SCRATCH.set((packed_x, packed_w));
        }
    }
}

#[cfg(test)]
mod tests;
