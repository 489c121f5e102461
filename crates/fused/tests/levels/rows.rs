//! Layer norm, and residual connections with dropout and layer norm.

use burn::tensor::Device;

use super::common::assert_close;
use super::random::{Random, dropout_mask, leaf, lock, tensor};
use super::report;

const EPSILON: f64 = 1e-5;

/// Inputs of a case.
///
/// `mask` is the dropout mask, whose elements are 0 or `1 / (1 - probability)`.
struct Case {
    shape: [usize; 2],
    probability: f64,
    x: Vec<f64>,
    y: Vec<f64>,
    gamma: Vec<f64>,
    beta: Vec<f64>,
    mask: Vec<f64>,
    /// Gradient that the backward pass receives for the sum `x + mask * y`.
    d_sum: Vec<f64>,
    /// Gradient that the backward pass receives for the layer norm of the sum.
    d_norm: Vec<f64>,
}

/// The sum `x + mask * y`, its layer norm, and the gradients of x, y, gamma and beta.
struct Expected {
    sum: Vec<f64>,
    norm: Vec<f64>,
    dx: Vec<f64>,
    dy: Vec<f64>,
    d_gamma: Vec<f64>,
    d_beta: Vec<f64>,
}

impl Case {
    fn new(random: &mut Random, seed: u64) -> Self {
        // The width is at least 2. With a width of 1, the variance would be 0, and the gradients
        // would consist of rounding errors.
        let shape = [random.size(40), 1 + random.size(300)];
        let [rows, width] = shape;
        let n = rows * width;
        let probability = [0.0, 0.1, 0.6][random.below(3)];
        Self {
            shape,
            probability,
            x: random.numbers(n, 2.0),
            y: random.numbers(n, 2.0),
            gamma: random.numbers(width, 1.0),
            beta: random.numbers(width, 1.0),
            mask: dropout_mask(seed, shape, probability),
            d_sum: random.numbers(n, 1.0),
            d_norm: random.numbers(n, 1.0),
        }
    }

    fn expected(&self) -> Expected {
        let [rows, width] = self.shape;
        let n = rows * width;
        let sum: Vec<f64> = (0..n)
            .map(|i| self.x[i] + self.mask[i] * self.y[i])
            .collect();
        let mut expected = Expected {
            norm: vec![0.0; n],
            dx: self.d_sum.clone(),
            dy: Vec::new(),
            d_gamma: vec![0.0; width],
            d_beta: vec![0.0; width],
            sum,
        };
        let mean = |of: &dyn Fn(usize) -> f64| (0..width).map(of).sum::<f64>() / width as f64;
        for first in (0..n).step_by(width) {
            let sum = &expected.sum[first..][..width];
            let d_norm = &self.d_norm[first..][..width];
            let center = mean(&|i| sum[i]);
            let deviation = (mean(&|i| (sum[i] - center).powi(2)) + EPSILON).sqrt();
            let scaled = |i: usize| (sum[i] - center) / deviation;
            let slope = |i: usize| d_norm[i] * self.gamma[i];
            let (level, tilt) = (mean(&slope), mean(&|i| slope(i) * scaled(i)));
            for (i, d_norm) in d_norm.iter().enumerate() {
                expected.norm[first + i] = scaled(i) * self.gamma[i] + self.beta[i];
                expected.dx[first + i] += (slope(i) - level - scaled(i) * tilt) / deviation;
                expected.d_gamma[i] += d_norm * scaled(i);
                expected.d_beta[i] += d_norm;
            }
        }
        expected.dy = (0..n).map(|i| expected.dx[i] * self.mask[i]).collect();
        expected
    }
}

#[test]
fn residual_and_norm() {
    let mut random = Random::new(21);
    let _guard = lock();
    for seed in 0..60 {
        let case = Case::new(&mut random, seed);
        let Case { shape, .. } = case;
        let width = [shape[1]];
        let device = Device::flex().autodiff();
        let [x, y] = [&case.x, &case.y].map(|x| leaf(x, shape));
        let [gamma, beta] = [&case.gamma, &case.beta].map(|x| leaf(x, width));
        device.seed(seed);
        let (sum, norm) = fused::residual_and_norm(
            x.clone(),
            y.clone(),
            gamma.clone(),
            beta.clone(),
            case.probability,
            EPSILON,
        );
        let [d_sum, d_norm] = [&case.d_sum, &case.d_norm].map(|d| tensor(d, shape, &device));
        let loss = (sum.clone() * d_sum).sum() + (norm.clone() * d_norm).sum();
        let gradients = loss.backward();
        let found = [
            sum.into_data(),
            norm.into_data(),
            x.grad(&gradients).unwrap().into_data(),
            y.grad(&gradients).unwrap().into_data(),
            gamma.grad(&gradients).unwrap().into_data(),
            beta.grad(&gradients).unwrap().into_data(),
        ];
        let expected = case.expected();
        for ((name, expected), found) in [
            ("sum", expected.sum),
            ("norm", expected.norm),
            ("dx", expected.dx),
            ("dy", expected.dy),
            ("dgamma", expected.d_gamma),
            ("dbeta", expected.d_beta),
        ]
        .iter()
        .zip(&found)
        {
            assert_close(&format!("{name} of {shape:?}"), found, expected, 2e-5);
        }
        report("residual_and_norm", &found.each_ref());
    }
}

/// Checks layer norm and the residual connection as separate operations, with the formulas of
/// `Case::expected`.
#[test]
fn layer_norm_and_residual() {
    let mut random = Random::new(22);
    let _guard = lock();
    for seed in 100..140 {
        let mut case = Case::new(&mut random, seed);
        let shape = case.shape;
        let device = Device::flex().autodiff();
        let [x, y] = [&case.x, &case.y].map(|x| leaf(x, shape));
        device.seed(seed);
        let sum = fused::residual(x, y, case.probability).into_data();
        assert_close(
            &format!("sum of {shape:?}"),
            &sum,
            &case.expected().sum,
            1e-6,
        );

        let n = case.x.len();
        (case.mask, case.d_sum) = (vec![0.0; n], vec![0.0; n]);
        let expected = case.expected();
        let x = leaf(&case.x, shape);
        let [gamma, beta] = [&case.gamma, &case.beta].map(|x| leaf(x, [shape[1]]));
        let norm = fused::layer_norm(x.clone(), gamma.clone(), beta, EPSILON);
        let d_norm = tensor(&case.d_norm, shape, &device);
        let gradients = (norm.clone() * d_norm).sum().backward();
        let norm = norm.into_data();
        let dx = x.grad(&gradients).unwrap().into_data();
        let d_gamma = gamma.grad(&gradients).unwrap().into_data();
        assert_close(&format!("norm of {shape:?}"), &norm, &expected.norm, 2e-5);
        assert_close(&format!("dx of {shape:?}"), &dx, &expected.dx, 2e-5);
        assert_close(
            &format!("dgamma of {shape:?}"),
            &d_gamma,
            &expected.d_gamma,
            2e-5,
        );
        report("layer_norm", &[&sum, &norm, &dx, &d_gamma]);
    }
}
