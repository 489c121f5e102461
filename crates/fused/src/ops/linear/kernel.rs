//! The sum of all rows of a matrix, which is the gradient of a bias.

use crate::memory::buffer::Buffer;
use crate::parallel;

/// Number of rows in a piece that one thread sums. The sums of the pieces are added in order, so
/// that the result does not depend on the number of threads.
const ROWS: usize = 64;

/// Returns the sum of all rows of `x`, `[M, width]`, as a buffer of `width` elements.
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
    let pieces = parallel::map(x.chunks(ROWS * columns), piece);
    let mut sums = Buffer::zeros(width);
    for piece in &pieces {
        add(&mut sums, piece);
    }
    sums
}
