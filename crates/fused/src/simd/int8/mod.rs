//! Matmul `x W + b` of f32 rows and a matrix of 8-bit integers.
//!
//! The rows of `W` form blocks, and each column of a block has a scale: an element is its integer
//! times the scale. A row of `x` is quantised in the same way, block by block, when it is
//! multiplied. The products of a block are summed as integers, and the sums of the blocks are
//! scaled and added in f32, in order. A row's result therefore depends neither on the other rows
//! nor on the instruction set.
//!
//! Integer sums cannot overflow: a block has at most [`MAX_BLOCK`] products. Each is at most
//! `255 * 127`, since kernels add 128 to each integer of `W`.

mod dots;
mod group;
mod matrix;
mod panel;
mod part;
mod rows;

use std::cell::Cell;

use self::dots::Kernel;
use self::group::PANEL;
pub(crate) use self::matrix::Int8Matrix;
use self::part::Part;
use self::rows::Rows;
use crate::parallel::{self, current_num_threads};

/// Maximum number of rows of `W` in a block.
pub(crate) const MAX_BLOCK: usize = 255;

/// Number of rows of `x` that justify another thread, although this thread must pack the same
/// columns of `W` again.
const ROWS_OF_PART: usize = 32;

/// Number of multiply-adds below which a second thread costs more than it saves.
const PARALLEL: usize = 1 << 19;

thread_local! {
    /// Memory for quantised rows, kept between calls.
    static ROWS: Cell<Rows> = const { Cell::new(Rows::new()) };
}

/// Computes `y = x W + b`.
///
/// If a row of `x` has an element that is not finite, the row's result is NaN.
///
/// # Shapes
///
/// - x: `[M, K]`, row after row
/// - w: `[K, N]`
/// - bias: `[N]`
/// - y: `[M, N]`, row after row; its old elements are not read
///
/// # Panics
///
/// If the sizes do not fit together.
pub(crate) fn matmul(x: &[f32], w: &Int8Matrix<'_>, bias: Option<&[f32]>, y: &mut [f32]) {
    matmul_by(Kernel::of_level(), x, w, bias, y);
}

/// Computes [`matmul`] with the given kernel, which the CPU must be able to run.
fn matmul_by(kernel: Kernel, x: &[f32], w: &Int8Matrix<'_>, bias: Option<&[f32]>, y: &mut [f32]) {
    let (k, n) = (w.rows, w.columns);
    let m = y.len() / n.max(1);
    assert!(
        x.len() == m * k && y.len() == m * n && bias.is_none_or(|bias| bias.len() == n),
        "{} elements times [{k}, {n}] in {} elements",
        x.len(),
        y.len()
    );
    assert!(
        (1..=MAX_BLOCK).contains(&w.block) && k.is_multiple_of(w.block),
        "{k} rows are not a whole number of blocks of {} rows, at most {MAX_BLOCK}",
        w.block
    );
    if y.is_empty() {
        return;
    }
    let threads = match m * k * n {
        work if work < PARALLEL => 1,
        _ => current_num_threads(),
    };
    let mut rows = ROWS.take();
    rows.quantise(x, k, w.block, threads > 1);
    // If there are at least twice as many threads as panels (groups of `PANEL` columns), more than
    // `ROWS_OF_PART` rows are split as well.
    let wide = threads.min(n.div_ceil(PANEL));
    let high = (threads / wide).min(m.div_ceil(ROWS_OF_PART));
    let height = m.div_ceil(high);
    let width = n.div_ceil(wide).next_multiple_of(PANEL);
    let mut parts: Vec<Part<'_>> = Vec::with_capacity(threads);
    for (y, first_row) in y.chunks_mut(height * n).zip((0..).step_by(height)) {
        let first_part = parts.len();
        parts.extend((0..n).step_by(width).map(|first_column| Part {
            rows: &rows,
            w,
            bias,
            first_row,
            first_column,
            y: Vec::with_capacity(height),
        }));
        for row in y.chunks_mut(n) {
            for (part, segment) in parts[first_part..].iter_mut().zip(row.chunks_mut(width)) {
                part.y.push(segment);
            }
        }
    }
    parallel::for_each(parts.into_iter(), |part| kernel.compute(part));
    ROWS.set(rows);
}

#[cfg(test)]
mod tests;
