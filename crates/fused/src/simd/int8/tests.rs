use super::*;

/// Returns `n` integers that look random but depend only on the index and `seed`.
fn integers(n: usize, seed: usize) -> Vec<i8> {
    (0..n)
        .map(|i| (((i * 7919 + seed * 104_729) % 2003) % 255) as i32 - 127)
        .map(|w| w as i8)
        .collect()
}

fn floats(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7907 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

/// Sizes `(m, k, n, block)`: `x` is `[m, k]`, `W` is `[k, n]`, and a block has `block` rows of `W`.
const SIZES: [(usize, usize, usize, usize); 11] = [
    (1, 1, 1, 1),
    (2, 4, 64, 4),
    (3, 10, 70, 5),
    (5, 64, 11, 64),
    (6, 30, 130, 30),
    (7, 512, 65, 128),
    (13, 255, 200, 255),
    (40, 256, 640, 128),
    (200, 128, 96, 64),
    (5, 512, 512, 128),
    (200, 512, 60, 128),
];

/// Checks every kernel that the CPU can run against a reference in integers.
fn check(by_column: bool) {
    for kernel in Kernel::all() {
        check_kernel(kernel, by_column);
    }
}

fn check_kernel(kernel: Kernel, by_column: bool) {
    for (m, k, n, block) in SIZES {
        let (data, x, bias) = (integers(k * n, 1), floats(m * k, 2), floats(n, 3));
        let scales: Vec<f32> = floats(k / block * n, 4)
            .iter()
            .map(|s| 0.01 * (s + 1.5))
            .collect();
        let w = Int8Matrix {
            data: &data,
            rows: k,
            columns: n,
            strides: if by_column { [1, k] } else { [n, 1] },
            scales: &scales,
            scale_strides: if by_column { [1, k / block] } else { [n, 1] },
            block,
        };
        let mut y = vec![f32::NAN; m * n];
        matmul_by(kernel, &x, &w, Some(&bias), &mut y);
        for row in 0..m {
            let x = &x[row * k..][..k];
            for column in 0..n {
                let mut expected = bias[column];
                for (block, x) in x.chunks(block).enumerate() {
                    let largest = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                    let mut sum = 0i64;
                    for (i, x) in x.iter().enumerate() {
                        let element = (block * w.block + i) * w.strides[0] + column * w.strides[1];
                        let x = (x * (127.0 / largest)).round_ties_even() as i64;
                        sum += x * i64::from(data[element]);
                    }
                    let scale = scales[block * w.scale_strides[0] + column * w.scale_strides[1]];
                    expected += sum as f32 * (largest / 127.0 * scale);
                }
                let found = y[row * n + column];
                assert_eq!(found, expected, "{kernel:?} {m} {k} {n}: {row} {column}");
            }
        }
    }
}

#[test]
fn products_are_exact() {
    check(false);
}

#[test]
fn products_with_a_transposed_matrix_are_exact() {
    check(true);
}

#[test]
fn products_are_exact_for_any_number_of_threads() {
    for threads in [1, 2, 3, 9, 40] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| check(false));
    }
}

#[test]
fn sums_do_not_saturate() {
    let (k, n) = (255, 64);
    let w = Int8Matrix {
        data: &vec![127; k * n],
        rows: k,
        columns: n,
        strides: [n, 1],
        scales: &vec![1.0; n],
        scale_strides: [n, 1],
        block: k,
    };
    for kernel in Kernel::all() {
        for sign in [1.0, -1.0] {
            let mut y = vec![0.0; n];
            matmul_by(kernel, &vec![sign * 127.0; k], &w, None, &mut y);
            assert_eq!(y, vec![sign * (127 * 127 * k) as f32; n], "{kernel:?}");
        }
    }
}

#[test]
fn zeros_outliers_and_what_is_not_finite() {
    let (k, n, block) = (64, 64, 32);
    let w = Int8Matrix {
        data: &vec![1; k * n],
        rows: k,
        columns: n,
        strides: [n, 1],
        scales: &vec![1.0; 2 * n],
        scale_strides: [n, 1],
        block,
    };
    let run = |x: [f32; 3]| {
        let mut row = vec![0.0; k];
        // The first block contains `x[0]` and `x[1]`, and the second block contains `x[2]`.
        (row[0], row[1], row[block]) = (x[0], x[1], x[2]);
        let mut y = vec![0.5; n];
        matmul(&row, &w, None, &mut y);
        y[n - 1]
    };
    assert_eq!(run([0.0, 0.0, 0.0]), 0.0);
    assert_eq!(run([1e-40, 0.0, 1.0]), 1.0);
    // An outlier does not reduce the precision of the other block.
    let outlier = run([1e6, 0.0, 0.3]);
    assert!((outlier - 1e6 - 0.3).abs() < 0.1, "{outlier}");
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(run([1.0, x, 1.0]).is_nan());
    }
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    let (m, k, n) = (37, 256, 300);
    let (data, x) = (integers(k * n, 1), floats(m * k, 2));
    let w = Int8Matrix {
        data: &data,
        rows: k,
        columns: n,
        strides: [n, 1],
        scales: &vec![0.01; 2 * n],
        scale_strides: [n, 1],
        block: 128,
    };
    let mut all = vec![0.0; m * n];
    matmul(&x, &w, None, &mut all);
    for (row, expected) in x.chunks(k).zip(all.chunks(n)) {
        let mut alone = vec![0.0; n];
        matmul(row, &w, None, &mut alone);
        assert_eq!(alone, expected);
    }
}
