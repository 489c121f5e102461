use super::*;

pub(super) fn elements(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

fn run(x: &[f32], w: &[f32], k: usize, n: usize, bias: Option<&[f32]>) -> Vec<f32> {
    let x = Matrix::contiguous(x, x.len() / k, k);
    multiply(x, Matrix::contiguous(w, k, n), bias)
}

fn multiply(x: Matrix<'_>, w: Matrix<'_>, bias: Option<&[f32]>) -> Vec<f32> {
    let mut y = vec![f32::NAN; x.rows * w.columns];
    matmul(x, w, bias, &mut y);
    y
}

/// Rows and columns of `W`. The last six sizes need several packed pieces.
const SIZES: [(usize, usize); 9] = [
    (1, 1),
    (3, 17),
    (64, 64),
    (257, 33),
    (301, 370),
    (300, 500),
    (512, 270),
    (40, 1100),
    (1100, 210),
];

#[test]
fn products_are_accurate_for_every_number_of_rows() {
    for (k, n) in SIZES {
        let (w, bias) = (elements(k * n, 1), elements(n, 2));
        for m in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 40, 200] {
            let x = elements(m * k, 3);
            let y = run(&x, &w, k, n, Some(&bias));
            for (row, y) in x.chunks(k).zip(y.chunks(n)) {
                for (column, &y) in y.iter().enumerate() {
                    let terms = (0..k).map(|i| f64::from(row[i]) * f64::from(w[i * n + column]));
                    let expected = terms.sum::<f64>() + f64::from(bias[column]);
                    assert!(
                        (f64::from(y) - expected).abs() < 1e-4,
                        "{m} {k} {n}: {y}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    for (k, n) in SIZES {
        let (w, bias) = (elements(k * n, 1), elements(n, 2));
        let all = elements(200 * k, 3);
        for bias in [None, Some(&bias[..])] {
            let together = run(&all, &w, k, n, bias);
            for m in (1..=17).chain([30]) {
                let y = run(&all[..m * k], &w, k, n, bias);
                assert!(y[..] == together[..m * n], "{m} rows, [{k}, {n}]");
            }
        }
    }
}

#[cfg(feature = "autodiff")]
#[test]
fn products_are_added_to_the_output() {
    for (k, n) in SIZES {
        let (w, bias) = (elements(k * n, 1), elements(n, 2));
        for m in [1, 5, 7, 16, 20] {
            let x = elements(m * k, 3);
            let mut y = bias.repeat(m);
            let mut rows: Vec<&mut [f32]> = y.chunks_mut(n).collect();
            let matrices = (Matrix::contiguous(&x, m, k), Matrix::contiguous(&w, k, n));
            add_matmul(matrices.0, matrices.1, &mut rows);
            assert!(y == run(&x, &w, k, n, Some(&bias)), "{m} {k} {n}");
        }
    }
}

#[test]
fn a_transposed_matrix_gives_the_same_bits() {
    for (k, n) in SIZES {
        let w = elements(k * n, 1);
        for gap in [0, 5] {
            // In memory, a gap of NaN follows each column.
            let mut transposed = vec![f32::NAN; (k + gap) * n];
            for (i, w) in w.iter().enumerate() {
                transposed[i % n * (k + gap) + i / n] = *w;
            }
            let w_t = Matrix {
                data: &transposed,
                rows: k,
                columns: n,
                row_stride: 1,
                column_stride: k + gap,
            };
            for m in [1, 7, 8, 9, 20, 150] {
                let x = elements(m * k, 3);
                let y = multiply(Matrix::contiguous(&x, m, k), w_t, None);
                assert!(y == run(&x, &w, k, n, None), "{m} {k} {n}, {gap}");
            }
        }
    }
}

#[test]
fn a_transposed_left_matrix_gives_the_same_bits() {
    for (k, n) in SIZES {
        let w = elements(k * n, 1);
        for m in [1, 2, 5, 7, 8, 9, 13, 16, 17, 20, 150] {
            let x = elements(m * k, 3);
            // In memory, a gap of three NaN follows each column.
            let stride = m + 3;
            let mut transposed = vec![f32::NAN; stride * k];
            for (i, x) in x.iter().enumerate() {
                transposed[i % k * stride + i / k] = *x;
            }
            let x_t = Matrix {
                data: &transposed,
                rows: m,
                columns: k,
                row_stride: 1,
                column_stride: stride,
            };
            assert!(
                multiply(x_t, Matrix::contiguous(&w, k, n), None) == run(&x, &w, k, n, None),
                "{m} {k} {n}"
            );
        }
    }
}

#[test]
fn matrices_may_have_any_strides() {
    // The elements are stored row after row if `wide`, else column after column. There are gaps
    // between elements, and between rows or columns.
    fn lay(data: &[f32], rows: usize, columns: usize, wide: bool) -> Matrix<'_> {
        Matrix {
            data,
            rows,
            columns,
            row_stride: if wide { 3 * columns } else { 2 },
            column_stride: if wide { 2 } else { 3 * rows },
        }
    }

    for (m, k, n) in [
        (1, 1, 1),
        (3, 20, 50),
        (16, 5, 33),
        (20, 70, 17),
        (33, 1025, 49),
    ] {
        let (x, w) = (elements(9 * m * k, 1), elements(9 * k * n, 2));
        for (x_wide, w_wide) in [(true, true), (true, false), (false, true), (false, false)] {
            let (x, w) = (lay(&x, m, k, x_wide), lay(&w, k, n, w_wide));
            let at = |of: Matrix<'_>, row: usize, column: usize| {
                of.data[row * of.row_stride + column * of.column_stride]
            };
            let [x_packed, w_packed] = [x, w].map(|of| -> Vec<f32> {
                (0..of.rows * of.columns)
                    .map(|i| at(of, i / of.columns, i % of.columns))
                    .collect()
            });
            assert!(
                multiply(x, w, None) == run(&x_packed, &w_packed, k, n, None),
                "{m} {k} {n}, {x_wide} {w_wide}"
            );
        }
    }
}

#[cfg(feature = "autodiff")]
#[test]
fn sums_of_rows_are_accurate_and_do_not_depend_on_the_path() {
    for (k, n) in SIZES {
        let w = elements(k * n, 1);
        let transposed: Vec<f32> = (0..k * n).map(|i| w[i % k * n + i / k]).collect();
        let expected: Vec<f64> = (0..n)
            .map(|column| (0..k).map(|row| f64::from(w[row * n + column])).sum())
            .collect();
        let mut of_one_row = None;
        // These numbers of rows of `x` cover all paths: few rows, one thread, threads that split
        // the columns, and, with at most 16 threads, threads that split the rows.
        for m in [1, 3, 16, 20, 150, 300, 1030] {
            let x = elements(m * k, 3);
            for is_transposed in [false, true] {
                let w = Matrix {
                    data: if is_transposed { &transposed } else { &w },
                    rows: k,
                    columns: n,
                    row_stride: if is_transposed { 1 } else { n },
                    column_stride: if is_transposed { k } else { 1 },
                };
                let (mut y, mut sums) = (vec![f32::NAN; m * n], vec![f32::NAN; n]);
                let x = Matrix::contiguous(&x, m, k);
                matmul_and_sums(x, w, &mut y, &mut sums);
                assert!(y == multiply(x, w, None), "{m} {k} {n}");
                let of_one_row = of_one_row.get_or_insert(sums.clone());
                assert!(sums == *of_one_row, "{m} {k} {n}: other bits");
                for (&sum, expected) in sums.iter().zip(&expected) {
                    let difference = (f64::from(sum) - expected).abs();
                    assert!(difference < 1e-4, "{m} {k} {n}: {sum}, not {expected}");
                }
            }
        }
    }
    let (x, w) = (Matrix::contiguous(&[], 2, 0), Matrix::contiguous(&[], 0, 3));
    let (mut y, mut sums) = ([f32::NAN; 6], [f32::NAN; 3]);
    matmul_and_sums(x, w, &mut y, &mut sums);
    assert_eq!((y, sums), ([0.0; 6], [0.0; 3]));
    let w = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0];
    let (x, w) = (Matrix::contiguous(&[], 0, 2), Matrix::contiguous(&w, 2, 3));
    matmul_and_sums(x, w, &mut [], &mut sums);
    assert_eq!(sums, [11.0, 22.0, 33.0]);
}

#[test]
fn empty_matrices_have_empty_products() {
    assert!(run(&[], &[1.0, 2.0], 1, 2, None).is_empty());
    let (x, w) = (Matrix::contiguous(&[], 2, 0), Matrix::contiguous(&[], 0, 3));
    assert_eq!(multiply(x, w, None), [0.0; 6]);
    assert_eq!(
        multiply(x, w, Some(&[1.0, 2.0, 3.0])),
        [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    );
}

#[test]
fn bf16_rounds_both_factors_and_nothing_else() {
    use burn::tensor::bf16;

    let round = |x: f32| {
        if crate::has_bf16_instructions() {
            bf16::from_f32(x).to_f32()
        } else {
            x
        }
    };
    for (k, n) in SIZES {
        let (w, bias) = (elements(k * n, 1), elements(n, 2));
        let rounded: Vec<f32> = w.iter().map(|&w| round(w)).collect();
        let all = elements(200 * k, 3);
        let mut first = None;
        // With at most 16 rows, matmuls stay in f32. The other numbers cover threads that split
        // columns, and, with two or three threads, threads that split rows.
        for m in [1, 16, 17, 24, 40, 130, 200] {
            let x = &all[..m * k];
            let exact = run(x, &w, k, n, Some(&bias));
            let _bf16 = crate::bf16_matmuls(true);
            let y = run(x, &w, k, n, Some(&bias));
            if m <= 16 {
                assert!(y == exact, "{m} {k} {n}");
                continue;
            }
            for (row, y) in x.chunks(k).zip(y.chunks(n)) {
                for (column, &y) in y.iter().enumerate() {
                    let terms = (0..k)
                        .map(|i| f64::from(round(row[i])) * f64::from(rounded[i * n + column]));
                    let expected = terms.sum::<f64>() + f64::from(bias[column]);
                    let difference = (f64::from(y) - expected).abs();
                    assert!(difference < 1e-4, "{m} {k} {n}: {y}, not {expected}");
                }
            }
            // The first row has the same result whatever the number of rows is.
            let first = first.get_or_insert(y[..n].to_vec());
            assert!(y[..n] == first[..], "{m} rows, [{k}, {n}]");
        }
    }
}

#[test]
fn bf16_keeps_nan_and_infinity() {
    let _bf16 = crate::bf16_matmuls(true);
    let largest = f32::from_bits(0x7f7f_0000);
    // Without special treatment of NaN, the bits of the second NaN would be rounded to those of
    // zero.
    let nans = [
        f32::NAN,
        f32::from_bits(0xffff_ffff),
        f32::from_bits(0x7f80_0001),
    ];
    for (x, expected) in nans
        .map(|x| (x, f32::NAN))
        .into_iter()
        .chain([f32::INFINITY, f32::NEG_INFINITY, largest].map(|x| (x, x)))
    {
        let mut factors = vec![1.0; 20];
        factors[7] = x;
        let y = run(&factors, &[1.0], 1, 1, None);
        for (row, y) in y.into_iter().enumerate() {
            let expected = if row == 7 { expected } else { 1.0 };
            assert!(y == expected || y.is_nan() && expected.is_nan(), "{y}");
        }
        let y = run(&[1.0; 20], &[x], 1, 1, None);
        assert!(
            y.iter()
                .all(|&y| y == expected || y.is_nan() && expected.is_nan())
        );
    }
}

#[cfg(feature = "autodiff")]
#[test]
fn bf16_sums_of_rows_are_those_of_f32() {
    for (k, n) in SIZES {
        let w = elements(k * n, 1);
        for m in [20, 150] {
            let x = elements(m * k, 3);
            for strides in [[n, 1], [1, k]] {
                let w = Matrix {
                    data: &w,
                    rows: k,
                    columns: n,
                    row_stride: strides[0],
                    column_stride: strides[1],
                };
                let x = Matrix::contiguous(&x, m, k);
                let [exact, rounded] = [false, true].map(|is_bf16| {
                    let _bf16 = crate::bf16_matmuls(is_bf16);
                    let (mut y, mut sums) = (vec![f32::NAN; m * n], vec![f32::NAN; n]);
                    matmul_and_sums(x, w, &mut y, &mut sums);
                    assert!(y == multiply(x, w, None), "{m} {k} {n}");
                    sums
                });
                assert!(rounded == exact, "{m} {k} {n}");
            }
        }
    }
}
