//! Compares operations on matrices of 8-bit integers with the same operations in f64.

mod common;

use burn::tensor::quantization::{
    Calibration, QuantScheme, QuantValue, compute_q_params, compute_range,
};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::{assert_close, elements, floats};
use proptest::prelude::*;

fn matrix(rows: usize, columns: usize, seed: usize) -> Tensor<2> {
    let data = TensorData::new(floats(rows * columns, seed, 2.0), [rows, columns]);
    Tensor::from_data(data, &Device::flex())
}

fn is_quantised(matrix: &Tensor<2>) -> bool {
    matches!(matrix.dtype(), DType::QFloat(_))
}

fn values(tensor: TensorData) -> Vec<f64> {
    tensor.iter().collect()
}

/// Returns `x W + b` in f64, for `x` of shape `[M, K]` and `w` of shape `[K, N]`.
fn product(x: &[f64], w: &[f64], bias: &[f64]) -> Vec<f64> {
    let n = bias.len();
    let k = w.len() / n;
    let dot = |x: &[f64], column: usize| -> f64 {
        x.iter()
            .enumerate()
            .map(|(i, x)| x * w[i * n + column])
            .sum()
    };
    x.chunks(k)
        .flat_map(|x| (0..n).map(move |column| (x, column)))
        .map(|(x, column)| dot(x, column) + bias[column])
        .collect()
}

/// Checks `linear` and `linear_transposed` with a quantised weight.
fn check_linear(m: usize, k: usize, n: usize, seed: usize) {
    let device = Device::flex();
    let (x, weight) = (matrix(m, k, seed), matrix(k, n, seed + 1));
    let bias = Tensor::<1>::from_data(TensorData::new(floats(n, 7, 1.0), [n]), &device);
    let small = fused::quantize_int8(weight.clone(), 0);
    let rounded = values(small.clone().dequantize().into_data());
    let name = format!("{m} {k} {n}");
    // Quantisation rounds a weight by at most half a unit. A unit is 1/127 of the largest element
    // of the weight's block, which is at most 2.
    let of_weight = if is_quantised(&small) {
        2.0 / 254.0 + 1e-6
    } else {
        0.0
    };
    for (rounded, exact) in rounded.iter().zip(weight.clone().into_data().iter::<f64>()) {
        assert!(
            (rounded - exact).abs() <= of_weight,
            "{name}: {rounded}, not {exact}"
        );
    }
    let expected = product(
        &values(x.clone().into_data()),
        &rounded,
        &values(bias.clone().into_data()),
    );
    // The reference uses the quantised weight. Apart from rounding to f32, the results differ only
    // because the linear layer also quantises `x`. Each element of `x` is rounded by at most half a
    // unit, which is at most 2 / 254.
    let of_column = |column: usize| {
        let column = rounded.iter().skip(column).step_by(n);
        2.0 / 254.0 * column.map(|w| w.abs()).sum::<f64>() + 1e-4
    };
    let tolerances: Vec<f64> = (0..n).map(of_column).collect();
    let close = |name: &str, found: Tensor<2>| {
        assert_eq!(found.dims(), [m, n], "{name}");
        let found = found.into_data();
        let pairs = found.iter::<f64>().zip(&expected);
        for ((found, expected), tolerance) in pairs.zip(tolerances.iter().cycle()) {
            assert!(
                (found - expected).abs() <= *tolerance,
                "{name}: {found}, not {expected}"
            );
        }
    };
    close(&name, fused::linear(x.clone(), small, Some(bias.clone())));
    let transposed = fused::quantize_int8(weight.transpose(), 1);
    close(&name, fused::linear_transposed(x, transposed, Some(bias)));
}

#[test]
fn linear_layers_follow_the_formula() {
    for (m, k, n) in [
        (1, 8, 1),
        (1, 512, 512),
        (3, 24, 100),
        (7, 80, 64),
        (30, 520, 130),
        (130, 2048, 70),
        // The number of inputs, 131, is a prime above the maximum block size of 128. No block size
        // divides it, so the weight is not quantised.
        (4, 131, 20),
    ] {
        check_linear(m, k, n, 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn linear_layers_of_any_size_follow_the_formula(
        m in 1..40usize, k in 1..300usize, n in 1..200usize, seed in 0..1000usize,
    ) {
        check_linear(m, k, n, seed);
    }
}

#[test]
fn an_embedding_has_the_rows_of_its_table() {
    for width in [8, 24, 128, 520] {
        let table = fused::quantize_int8(matrix(11, width, 5), 1);
        assert!(is_quantised(&table));
        let rows = values(table.clone().dequantize().into_data());
        let ids = [[3i64, 0, 10], [5, 5, 1]];
        let found = fused::embedding(table, Tensor::<2, Int>::from_data(ids, &Device::flex()));
        assert_eq!(found.dims(), [2, 3, width]);
        let expected = ids.as_flattened().iter();
        let expected = expected.flat_map(|&id| &rows[id as usize * width..][..width]);
        let expected: Vec<f64> = expected.copied().collect();
        assert_close("embedding", &found.into_data(), &expected, 1e-7);
    }
}

#[test]
#[should_panic(expected = "token id 11 is not in a vocabulary of 11")]
fn an_id_outside_the_table_is_rejected() {
    let table = fused::quantize_int8(matrix(11, 16, 5), 1);
    fused::embedding(table, Tensor::<2, Int>::from_data([[11]], &Device::flex()));
}

#[test]
fn matrices_that_burn_has_quantised_are_accepted() {
    let (x, weight) = (matrix(5, 96, 1), matrix(96, 40, 2));
    let scheme = QuantScheme::default().with_value(QuantValue::Q8S);
    let range = compute_range(&scheme, &weight, &Calibration::MinMax);
    let small = weight.quantize(&scheme, compute_q_params(&scheme, range));
    let bias = Tensor::<1>::zeros([40], &Device::flex());
    let expected = product(
        &values(x.clone().into_data()),
        &values(small.clone().dequantize().into_data()),
        &[0.0; 40],
    );
    let found = fused::linear(x, small, Some(bias));
    assert_close("linear", &found.into_data(), &expected, 0.02);
}

#[test]
fn fast_paths_and_burns_operations_agree() {
    let (x, weight) = (matrix(6, 64, 1), matrix(64, 48, 2));
    let small = fused::quantize_int8(weight, 0);
    let fast = fused::linear(x.clone(), small.clone(), None);
    let _guard = fused::fast_paths(false);
    let plain = fused::linear(x, small, None).into_data();
    assert_close("linear", &fast.into_data(), &values(plain), 0.02);
}

#[test]
fn nan_is_not_hidden() {
    let mut weight = elements(64 * 3, 1);
    weight[3] = f64::NAN;
    let weight: Vec<f32> = weight.into_iter().map(|w| w as f32).collect();
    let weight = Tensor::<2>::from_data(TensorData::new(weight, [64, 3]), &Device::flex());
    let y = fused::linear(matrix(1, 64, 2), fused::quantize_int8(weight, 0), None);
    let finite: Vec<bool> = y.into_data().iter::<f32>().map(f32::is_finite).collect();
    assert_eq!(finite, [false, true, true]);
}

#[test]
fn tiny_and_empty_matrices_are_accepted() {
    let device = Device::flex();
    for element in [0.0, 1e-45, 1e-38, 1e-30] {
        let weight = Tensor::<2>::full([16, 3], element, &device);
        let y = fused::linear(matrix(2, 16, 1), fused::quantize_int8(weight, 0), None);
        let largest = 1e-6 + 64.0 * element;
        assert!(
            y.into_data().iter::<f32>().all(|y| y.abs() <= largest),
            "{element}"
        );
    }
    for [rows, columns] in [[0, 16], [16, 0]] {
        for axis in [0, 1] {
            let empty = fused::quantize_int8(Tensor::zeros([rows, columns], &device), axis);
            assert_eq!(empty.dims(), [rows, columns]);
        }
    }
}
