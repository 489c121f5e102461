//! `x W + b` in f32 by vector instructions: the product of a few or many rows with a matrix that
//! is read once.
//!
//! Every output is one chain `((b + x_0 w_0) + x_1 w_1) + ...` of multiply-adds in this order,
//! whatever the path, so that a row's result does not depend on the number of rows.

mod direct;
mod pack;
mod packed;
mod part;

use pulp::Arch;
use rayon::prelude::*;

use packed::PACK_COLUMNS;
use part::{Part, ROWS, Start, Sums};

/// Numbers in a cache line.
pub(crate) const LINE: usize = 16;

/// Multiply-adds below which a second thread costs more than it brings.
const PARALLEL: usize = 1 << 17;

/// Rows for each thread from which on they share the rows; below, they share the columns.
const ROWS_PER_THREAD: usize = 64;

/// A matrix with any strides but 0.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Its elements, the first one first.
    pub data: &'a [f32],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix row after row.
    ///
    /// # Panics
    ///
    /// If there are not as many elements.
    pub fn contiguous(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert!(
            data.len() == rows * columns,
            "{} numbers as [{rows}, {columns}]",
            data.len()
        );
        Self {
            data,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
        }
    }
}

/// `y = x W + b`: `x` is `[m, W.rows]` and `y` `[m, W.columns]`, row after row; what it held is not
/// read.
///
/// # Panics
///
/// If the sizes do not fit together.
pub fn product(x: Matrix<'_>, w: Matrix<'_>, bias: Option<&[f32]>, y: &mut [f32]) {
    let (m, n) = (x.rows, w.columns);
    assert!(
        x.columns == w.rows && bias.is_none_or(|bias| bias.len() == n) && y.len() == m * n,
        "[{m}, {}] times [{}, {n}] in {} numbers",
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

/// `y = x W`, and the sums of the matrix's rows: each piece of the matrix is added up when it has
/// been packed.
///
/// # Panics
///
/// If the sizes do not fit together.
#[cfg(feature = "autodiff")]
pub(crate) fn product_and_sums(x: Matrix<'_>, w: Matrix<'_>, y: &mut [f32], sums: &mut [f32]) {
    assert!(
        x.columns == w.rows && sums.len() == w.columns && y.len() == x.rows * w.columns,
        "[{}, {}] times [{}, {}] in {} numbers, and {} sums",
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

/// `y += x W` on this thread, for rows that lie anywhere.
#[cfg(feature = "autodiff")]
pub(crate) fn add_product(x: Matrix<'_>, w: Matrix<'_>, y: &mut [&mut [f32]]) {
    on_this_thread(x, w, Start::Output, y);
}

/// `y = x W` on this thread, for rows that lie anywhere.
pub(crate) fn set_product(x: Matrix<'_>, w: Matrix<'_>, y: &mut [&mut [f32]]) {
    on_this_thread(x, w, Start::Zero, y);
}

fn on_this_thread(x: Matrix<'_>, w: Matrix<'_>, start: Start<'_>, y: &mut [&mut [f32]]) {
    assert!(x.rows == y.len() && x.columns == w.rows && w.rows > 0);
    Arch::new().dispatch(Part {
        x,
        first_row: 0,
        w,
        first_column: 0,
        start,
        y,
        sums: Sums::new(),
    });
}

/// What one thread has of the output, and which sums it makes.
struct Share<'a> {
    first_row: usize,
    first_column: usize,
    y: Vec<&'a mut [f32]>,
    sums: Sums<'a>,
}

fn fill(x: Matrix<'_>, w: Matrix<'_>, start: Start<'_>, y: &mut [f32], sums: Option<&mut [f32]>) {
    let (m, k, n) = (x.rows, w.rows, w.columns);
    let threads = match m * k * n {
        work if work < PARALLEL => 1,
        _ => rayon::current_num_threads(),
    };
    let (high, wide) = match m >= threads * ROWS_PER_THREAD {
        true => (threads, 1),
        false => (1, threads),
    };
    let height = m.div_ceil(high).next_multiple_of(ROWS);
    // Whole cache lines.
    let width = n.div_ceil(wide).next_multiple_of(LINE);
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
        // Parts of the same columns take turns.
        let (n_wide, n_high) = (n.div_ceil(width), m.div_ceil(height));
        for (index, sums) in sums.chunks_mut(width).enumerate() {
            for (piece, sums) in sums.chunks_mut(PACK_COLUMNS).enumerate() {
                let part = &mut parts[piece % n_high * n_wide + index];
                part.sums.push((piece * PACK_COLUMNS, sums));
            }
        }
    }
    let arch = Arch::new();
    let run = |mut share: Share<'_>| {
        arch.dispatch(Part {
            x,
            first_row: share.first_row,
            w,
            first_column: share.first_column,
            start,
            y: &mut share.y,
            sums: share.sums,
        });
    };
    if parts.len() == 1 {
        parts.into_iter().for_each(run);
    } else {
        parts.into_par_iter().for_each(run);
    }
}

#[cfg(test)]
mod tests;
