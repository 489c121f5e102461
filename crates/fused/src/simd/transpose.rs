//! Copies the transpose of a matrix whose elements have four bytes. With AVX2, a matrix of at least
//! eight rows and columns is copied in blocks of eight rows and columns.

use bytemuck::Pod;

/// Sets `to[column * to_stride + row] = from[row * from_stride + column]` for all rows and columns.
///
/// # Panics
///
/// If an element does not have four bytes, or a slice ends too early.
pub(crate) fn copy_transposed<T: Pod>(
    from: &[T],
    from_stride: usize,
    [rows, columns]: [usize; 2],
    to: &mut [T],
    to_stride: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = super::level::avx2() {
        simd.vectorize(avx2::Copy {
            simd,
            from,
            from_stride,
            shape: [rows, columns],
            to,
            to_stride,
        });
        return;
    }
    by_element(from, from_stride, [rows, columns], to, to_stride);
}

#[inline(always)]
fn by_element<T: Copy>(
    from: &[T],
    from_stride: usize,
    [rows, columns]: [usize; 2],
    to: &mut [T],
    to_stride: usize,
) {
    for column in 0..columns {
        let from = from[column..].iter().step_by(from_stride);
        let to = &mut to[column * to_stride..][..rows];
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2 {
    use std::arch::x86_64::__m256;

    use bytemuck::Pod;
    use pulp::x86::V3;
    use pulp::{NullaryFnOnce, cast};

    use super::by_element;

    /// Number of rows, and of columns, of a block.
    pub(crate) const BLOCK: usize = 8;

    pub(super) struct Copy<'a, T> {
        pub simd: V3,
        pub from: &'a [T],
        pub from_stride: usize,
        pub shape: [usize; 2],
        pub to: &'a mut [T],
        pub to_stride: usize,
    }

    impl<T: Pod> NullaryFnOnce for Copy<'_, T> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self {
                simd,
                from,
                from_stride,
                shape,
                to,
                to_stride,
            } = self;
            let [rows, columns] = shape;
            if rows < BLOCK || columns < BLOCK {
                by_element(from, from_stride, shape, to, to_stride);
                return;
            }
            // If the number of rows or columns is not a multiple of eight, the last block overlaps
            // the block before it.
            for row in (0..rows).step_by(BLOCK) {
                let row = row.min(rows - BLOCK);
                for column in (0..columns).step_by(BLOCK) {
                    let column = column.min(columns - BLOCK);
                    let from = &from[row * from_stride + column..];
                    let to = &mut to[column * to_stride + row..];
                    let mut block = [[T::zeroed(); BLOCK]; BLOCK];
                    for i in 0..BLOCK {
                        block[i].copy_from_slice(&from[i * from_stride..][..BLOCK]);
                    }
                    let block: [[T; BLOCK]; BLOCK] = cast(transpose(simd, cast(block)));
                    for i in 0..BLOCK {
                        to[i * to_stride..][..BLOCK].copy_from_slice(&block[i]);
                    }
                }
            }
        }
    }

    /// Transposes a block. The function first exchanges elements between pairs of rows, then within
    /// groups of four rows, then between the two halves. The function has no closures, since these
    /// would be compiled without the vector instructions.
    #[inline(always)]
    pub(crate) fn transpose(simd: V3, rows: [[f32; BLOCK]; BLOCK]) -> [[f32; BLOCK]; BLOCK] {
        let avx = simd.avx;
        let mut x: [__m256; BLOCK] = [
            cast(rows[0]),
            cast(rows[1]),
            cast(rows[2]),
            cast(rows[3]),
            cast(rows[4]),
            cast(rows[5]),
            cast(rows[6]),
            cast(rows[7]),
        ];
        for i in [0, 2, 4, 6] {
            (x[i], x[i + 1]) = (
                avx._mm256_unpacklo_ps(x[i], x[i + 1]),
                avx._mm256_unpackhi_ps(x[i], x[i + 1]),
            );
        }
        for i in [0, 4] {
            (x[i], x[i + 1], x[i + 2], x[i + 3]) = (
                avx._mm256_shuffle_ps::<0x44>(x[i], x[i + 2]),
                avx._mm256_shuffle_ps::<0xee>(x[i], x[i + 2]),
                avx._mm256_shuffle_ps::<0x44>(x[i + 1], x[i + 3]),
                avx._mm256_shuffle_ps::<0xee>(x[i + 1], x[i + 3]),
            );
        }
        for i in 0..4 {
            (x[i], x[i + 4]) = (
                avx._mm256_permute2f128_ps::<0x20>(x[i], x[i + 4]),
                avx._mm256_permute2f128_ps::<0x31>(x[i], x[i + 4]),
            );
        }
        [
            cast(x[0]),
            cast(x[1]),
            cast(x[2]),
            cast(x[3]),
            cast(x[4]),
            cast(x[5]),
            cast(x[6]),
            cast(x[7]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_transposed() {
        for (rows, columns) in [
            (1, 1),
            (7, 9),
            (8, 8),
            (10, 64),
            (16, 24),
            (19, 33),
            (0, 5),
            (64, 3),
            (64, 15),
        ] {
            let (from_stride, to_stride) = (columns + 3, rows + 5);
            let from: Vec<f32> = (0..rows * from_stride).map(|i| i as f32).collect();
            let mut to = vec![-1.0; columns * to_stride];
            copy_transposed(&from, from_stride, [rows, columns], &mut to, to_stride);
            for (i, &x) in to.iter().enumerate() {
                let (column, row) = (i / to_stride, i % to_stride);
                let expected = if row < rows {
                    (row * from_stride + column) as f32
                } else {
                    -1.0
                };
                assert_eq!(x, expected, "[{rows}, {columns}] at {row}, {column}");
            }
        }
    }
}
