//! Sums over the rows of a matrix.

use rayon::prelude::*;

use crate::memory::buffer::Buffer;

/// Rows of a piece that one thread sums. The sums of the pieces are added in order, so that the result
/// does not depend on the number of threads.
const ROWS: usize = 64;

/// Returns the sums over the rows of `x`, `[M, width]`: `[width]`.
pub(super) fn sum_rows(x: &[f32], width: usize) -> Buffer {
    let columns = width.max(1);
    let add = |sums: &mut [f32], row: &[f32]| {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x;
        }
    };
    let piece = |rows: &[f32]| {
        let mut sums = vec![0.0; columns];
        rows.chunks(columns).for_each(|row| add(&mut sums, row));
        sums
    };
    let pieces: Vec<Vec<f32>> = x.par_chunks(ROWS * columns).map(piece).collect();
    let mut sums = Buffer::zeros(width);
    for piece in &pieces {
        add(&mut sums, piece);
    }
    sums
}
