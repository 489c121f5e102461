//! Matmul `x W + b` of f32 rows and a matrix of 8-bit integers.
//!
//! The rows of `W` form blocks, and each column of a block has a scale: an element is its integer
//! times the scale. A row of `x` is quantised in the same way, block by block, when it is
//! multiplied. The products of a block are summed as integers, and the sums of the blocks are
//! scaled and added in f32, in order. A row's result therefore depends neither on the other rows
//! nor on the instructions.
//!
//! Integer sums cannot overflow: a block has at most [`MAX_BLOCK`] products, each at most
//! `255 * 127`.

mod dots;
mod panel;
mod rows;

use std::cell::Cell;
use std::ops::Range;

use rayon::prelude::*;

use self::dots::Kernel;
use self::panel::{Group, PANEL};
use self::rows::Rows;

/// Maximum number of rows of `W` in a block.
pub(crate) const MAX_BLOCK: usize = 255;

/// Number of multiply-adds below which a second thread costs more than it saves.
const PARALLEL: usize = 1 << 19;

/// A matrix of 8-bit integers with scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Int8Matrix<'a> {
    pub data: &'a [i8],
    pub rows: usize,
    pub columns: usize,
    /// Distance in `data` between the rows of a column, and between the columns of a row.
    pub strides: [usize; 2],
    /// The scale of each column of each block.
    pub scales: &'a [f32],
    /// Distance in `scales` between the blocks of a column, and between the columns of a block.
    pub scale_strides: [usize; 2],
    /// Number of rows in a block. The number of rows of the matrix is a multiple of it.
    pub block: usize,
}

impl Int8Matrix<'_> {
    fn n_blocks(&self) -> usize {
        self.rows / self.block
    }
}

thread_local! {
    /// Memory for quantised rows and for a packed panel, kept between calls.
    static ROWS: Cell<Rows> = const { Cell::new(Rows::new()) };
    static GROUPS: Cell<Vec<Group>> = const { Cell::new(Vec::new()) };
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
        _ => rayon::current_num_threads(),
    };
    let mut rows = ROWS.take();
    rows.quantise(x, k, w.block, threads > 1);
    let by_columns = n.div_ceil(PANEL) >= threads;
    let (high, wide) = if by_columns {
        (1, threads)
    } else {
        (threads, 1)
    };
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
    if parts.len() == 1 {
        parts.into_iter().for_each(Part::compute);
    } else {
        parts.into_par_iter().for_each(Part::compute);
    }
    ROWS.set(rows);
}

/// The rows and columns of the output that one thread computes.
struct Part<'a> {
    rows: &'a Rows,
    w: &'a Int8Matrix<'a>,
    bias: Option<&'a [f32]>,
    first_row: usize,
    first_column: usize,
    y: Vec<&'a mut [f32]>,
}

impl Part<'_> {
    fn compute(self) {
        let kernel = Kernel::of_level();
        kernel.compute(self);
    }

    /// Computes the part. `dots` is a kernel that multiplies at most `N` rows by a block.
    ///
    /// The code is compiled into each kernel's function, so that it has the kernel's instructions.
    #[inline(always)]
    fn run<const N: usize>(
        mut self,
        dots: impl Fn(&[&[[i8; 4]]], &[Group], &mut [[i32; PANEL]; N]),
    ) {
        let n_groups = self.w.block.div_ceil(4);
        let mut groups = GROUPS.take();
        groups.resize(self.w.n_blocks() * n_groups, Group::EMPTY);
        for begin in (0..self.y[0].len()).step_by(PANEL) {
            let columns = self.columns(begin);
            for (index, packed) in groups.iter_mut().enumerate() {
                let (block, group) = (index / n_groups, index % n_groups);
                self.w.pack(block, group, columns.clone(), packed);
            }
            self.panel(begin, &groups, &dots);
        }
        GROUPS.set(groups);
    }

    /// Multiplies all rows by a packed panel.
    #[inline(always)]
    fn panel<const N: usize>(
        &mut self,
        begin: usize,
        groups: &[Group],
        dots: impl Fn(&[&[[i8; 4]]], &[Group], &mut [[i32; PANEL]; N]),
    ) {
        let columns = self.columns(begin);
        let mut start = [0.0; PANEL];
        if let Some(bias) = self.bias {
            start[..columns.len()].copy_from_slice(&bias[columns.clone()]);
        }
        for (index, y) in self.y.chunks_mut(N).enumerate() {
            let row = self.first_row + index * N;
            let mut found = [start; N];
            let blocks = groups.chunks_exact(self.w.block.div_ceil(4));
            for (block, w) in blocks.enumerate() {
                let mut x: [&[[i8; 4]]; N] = [&[]; N];
                for (i, x) in x[..y.len()].iter_mut().enumerate() {
                    *x = self.rows.words(row + i, block);
                }
                let mut sums = [[0; PANEL]; N];
                dots(&x[..y.len()], w, &mut sums);
                let scales = self.w.scales(block, columns.clone());
                for (i, found) in found[..y.len()].iter_mut().enumerate() {
                    let (scale, offset) = self.rows.scale(row + i, block);
                    for ((found, sum), w) in found.iter_mut().zip(sums[i]).zip(scales) {
                        *found += (sum - offset) as f32 * (scale * w);
                    }
                }
            }
            for (y, found) in y.iter_mut().zip(found) {
                y[begin..][..columns.len()].copy_from_slice(&found[..columns.len()]);
            }
        }
    }

    /// Returns the columns of `W` in the panel that begins at a column of the part.
    fn columns(&self, begin: usize) -> Range<usize> {
        let first = self.first_column + begin;
        first..first + PANEL.min(self.y[0].len() - begin)
    }
}

#[cfg(test)]
mod tests;
