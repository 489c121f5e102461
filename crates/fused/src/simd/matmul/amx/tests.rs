use super::*;
use crate::simd::matmul::matrix::Matrix;
use crate::simd::matmul::tests::elements;

/// Computes the same as [`Tiles::multiply`], in plain code. With this function, packing is
/// tested on processors without AMX, too.
fn plain(x: &[Tile], w: &[Tile]) -> Block {
    let steps = x.len() / 2;
    let mut product = [[0.0; BLOCK]; BLOCK];
    for (row, sums) in product.iter_mut().enumerate() {
        for (column, sum) in sums.iter_mut().enumerate() {
            for step in 0..steps {
                let x = &x[2 * step + row / TILE][row % TILE];
                let w = &w[column / TILE * steps + step];
                for (x, w) in x.iter().zip(w) {
                    *sum += dot(*x, w[column % TILE]);
                }
            }
        }
    }
    product
}

/// Returns the dot product of two words, which have two bfloat16 elements each.
fn dot(x: f32, w: f32) -> f32 {
    let halves = |word: f32| {
        let bits = word.to_bits();
        [bits << 16, bits & 0xffff_0000].map(f32::from_bits)
    };
    let ([x0, x1], [w0, w1]) = (halves(x), halves(w));
    x0 * w0 + x1 * w1
}

/// Returns `n` elements that bfloat16 represents exactly.
fn exact(n: usize, seed: usize) -> Vec<f32> {
    let whole = elements(n, seed).into_iter();
    whole.map(|x| (x * 16.0).round()).collect()
}

fn transposed(data: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let places = 0..rows * columns;
    places
        .map(|i| data[i % rows * columns + i / rows])
        .collect()
}

/// Returns a view of `data` as a matrix that is stored row after row, or column after column if
/// `by_columns`.
fn matrix(data: &[f32], rows: usize, columns: usize, by_columns: bool) -> Matrix<'_> {
    Matrix {
        data,
        rows,
        columns,
        row_stride: if by_columns { 1 } else { columns },
        column_stride: if by_columns { rows } else { 1 },
    }
}

#[test]
fn blocks_of_every_shape_and_layout_have_exact_sums() {
    let sizes = [
        (1, 1, 1),
        (17, 3, 5),
        (32, 32, 32),
        (33, 31, 33),
        (40, 70, 300),
        (65, 513, 47),
        (31, 1100, 210),
    ];
    for (m, k, n) in sizes {
        let (x, w, bias) = (exact(m * k, 1), exact(k * n, 2), exact(n, 3));
        let (x_t, w_t) = (transposed(&x, m, k), transposed(&w, k, n));
        for (x_by_columns, w_by_columns) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let old = exact(m * n, 4);
            for start in [Start::Zero, Start::Bias(&bias), Start::Output] {
                let mut y = match start {
                    Start::Zero | Start::Bias(_) => vec![f32::NAN; m * n],
                    Start::Output => old.clone(),
                };
                by_blocks(
                    Part {
                        x: matrix(if x_by_columns { &x_t } else { &x }, m, k, x_by_columns),
                        first_row: 0,
                        w: matrix(if w_by_columns { &w_t } else { &w }, k, n, w_by_columns),
                        first_column: 0,
                        start,
                        y: &mut y.chunks_mut(n).collect::<Vec<_>>(),
                        sums: Vec::new(),
                    },
                    plain,
                );
                for (place, y) in y.into_iter().enumerate() {
                    let (row, column) = (place / n, place % n);
                    let before = match start {
                        Start::Zero => 0.0,
                        Start::Bias(bias) => bias[column],
                        Start::Output => old[place],
                    };
                    let products = (0..k).map(|i| x[row * k + i] * w[i * n + column]);
                    let expected = before + products.sum::<f32>();
                    assert_eq!(y, expected, "{m} {k} {n} {x_by_columns} {w_by_columns}");
                }
            }
        }
    }
}

/// Compares AMX's instructions with plain code. At levels other than `amx`, it compares nothing.
#[test]
fn instructions_multiply_as_plain_code_does() {
    let Some(amx) = Amx::of_level() else {
        eprintln!("no AMX at this level: its instructions are not tested");
        return;
    };
    let tiles = Tiles::new(amx);
    for steps in [1, 2, 16] {
        let size = 2 * steps * TILE * TILE;
        let words = |seed| -> Vec<f32> {
            let (low, high) = (exact(size, seed), exact(size, seed + 1));
            let pairs = low.into_iter().zip(high);
            pairs
                .map(|(low, high)| f32::from_bits(low.to_bits() >> 16 | high.to_bits()))
                .collect()
        };
        let (x, w) = (words(1), words(3));
        let (x, w) = (as_tiles(&x), as_tiles(&w));
        assert_eq!(tiles.multiply(x, w), plain(x, w), "{steps} steps");
    }
}
