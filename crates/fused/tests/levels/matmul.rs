//! Matmuls of matrices with any strides, and the linear layer.

use burn::tensor::{Device, TensorData};
use fused::Matrix;

use super::common::assert_close;
use super::random::{Random, leaf, tensor};
use super::report;

/// Returns `x W` in f64, for `x` of shape `[M, K]` and `w` of shape `[K, N]`.
///
/// The functions `x` and `w` return the element in a given row and column.
pub fn product(
    [m, k, n]: [usize; 3],
    x: impl Fn(usize, usize) -> f64,
    w: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let element = |i: usize| (0..k).map(|j| x(i / n, j) * w(j, i % n)).sum();
    (0..m * n).map(element).collect()
}

/// A matrix that is stored row after row or column after column, in some cases with gaps.
struct Strided {
    data: Vec<f32>,
    shape: [usize; 2],
    strides: [usize; 2],
}

impl Strided {
    fn new(random: &mut Random, [rows, columns]: [usize; 2]) -> Self {
        let (gap, step) = (random.below(4), 1 + random.below(2));
        let strides = if random.flip() {
            [columns * step + gap, step]
        } else {
            [step, rows * step + gap]
        };
        let len = (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1;
        let data = random.numbers(len, 1.0).iter().map(|&x| x as f32).collect();
        Self {
            data,
            shape: [rows, columns],
            strides,
        }
    }

    fn view(&self) -> Matrix<'_> {
        Matrix {
            data: &self.data,
            rows: self.shape[0],
            columns: self.shape[1],
            row_stride: self.strides[0],
            column_stride: self.strides[1],
        }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.data[row * self.strides[0] + column * self.strides[1]].into()
    }
}

#[test]
fn bf16_products_of_any_strides() {
    use burn::tensor::bf16;

    let mut random = Random::new(13);
    let _bf16 = fused::bf16_matmuls(true);
    let round = |x: f64| {
        if fused::has_bf16_instructions() {
            // The number is converted to f32 first, because `bf16::from_f64` wrongly rounds down
            // some numbers that are just above a tie.
            bf16::from_f32(x as f32).to_f64()
        } else {
            x
        }
    };
    for _ in 0..40 {
        let [k, n] = [1 + random.below(150), 1 + random.below(120)];
        let m = 17 + random.below(150);
        let (x, w) = (
            Strided::new(&mut random, [m, k]),
            Strided::new(&mut random, [k, n]),
        );
        let mut y = vec![f32::NAN; m * n];
        fused::matmul(x.view(), w.view(), None, &mut y);
        let expected = product(
            [m, k, n],
            |row, column| round(x.at(row, column)),
            |row, column| round(w.at(row, column)),
        );
        for (y, expected) in y.iter().zip(expected) {
            let difference = (f64::from(*y) - expected).abs();
            assert!(difference < 1e-4, "{m} {k} {n}: {y}, not {expected}");
        }
    }
}

#[test]
fn products_of_any_strides() {
    let mut random = Random::new(11);
    for case in 0..120 {
        let [m, n] = [random.size(140), random.size(300)];
        // Some matmuls sum so many products that the packed path splits the sums into pieces.
        let k = random.size(if case % 8 == 0 { 1100 } else { 200 });
        let x = Strided::new(&mut random, [m, k]);
        let w = Strided::new(&mut random, [k, n]);
        let bias: Option<Vec<f64>> = random.flip().then(|| random.numbers(n, 1.0));
        let bias_f32: Option<Vec<f32>> = bias
            .as_ref()
            .map(|bias| bias.iter().map(|&x| x as f32).collect());
        let mut y = vec![f32::NAN; m * n];
        fused::matmul(x.view(), w.view(), bias_f32.as_deref(), &mut y);
        let mut expected = product([m, k, n], |i, j| x.at(i, j), |i, j| w.at(i, j));
        if let Some(bias) = bias {
            for (i, y) in expected.iter_mut().enumerate() {
                *y += bias[i % n];
            }
        }
        let y = TensorData::new(y, [m, n]);
        let name = format!("[{m}, {k}] {:?} by [{k}, {n}] {:?}", x.strides, w.strides);
        assert_close(&name, &y, &expected, 1e-5);
        report("matmul", &[&y]);
    }
}

#[test]
fn linear() {
    let mut random = Random::new(12);
    for _ in 0..60 {
        let [m, k, n] = [random.size(150), random.size(100), random.size(150)];
        let (x, w) = (random.numbers(m * k, 1.0), random.numbers(k * n, 1.0));
        let (b, dy) = (random.numbers(n, 1.0), random.numbers(m * n, 1.0));
        let leaves = (leaf(&x, [m, k]), leaf(&w, [k, n]), leaf(&b, [n]));
        let y = fused::linear(leaves.0.clone(), leaves.1.clone(), Some(leaves.2.clone()));
        let weights = tensor(&dy, [m, n], &Device::flex().autodiff());
        let gradients = (y.clone() * weights).sum().backward();
        let name = |of: &str| format!("{of} of [{m}, {k}] by [{k}, {n}]");

        let y = y.into_data();
        let mut expected = product([m, k, n], |i, j| x[i * k + j], |i, j| w[i * n + j]);
        (0..m * n).for_each(|i| expected[i] += b[i % n]);
        assert_close(&name("y"), &y, &expected, 1e-5);
        let dx = leaves.0.grad(&gradients).unwrap().into_data();
        let expected = product([m, n, k], |i, j| dy[i * n + j], |i, j| w[j * n + i]);
        assert_close(&name("dx"), &dx, &expected, 1e-5);
        let dw = leaves.1.grad(&gradients).unwrap().into_data();
        let expected = product([k, m, n], |i, j| x[j * k + i], |i, j| dy[i * n + j]);
        assert_close(&name("dw"), &dw, &expected, 1e-5);
        let db = leaves.2.grad(&gradients).unwrap().into_data();
        let expected = product([1, m, n], |_, _| 1.0, |i, j| dy[i * n + j]);
        assert_close(&name("db"), &db, &expected, 1e-5);
        report("linear", &[&y, &dx, &dw, &db]);
    }
}
