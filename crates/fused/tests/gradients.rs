//! Compares the linear layer with Burn's linear layer, and its gradients with sums computed by
//! hand.

mod common;

use burn::tensor::{Device, Tensor, TensorData, module};
use common::{assert_close, floats};
use proptest::prelude::*;

/// A test case.
///
/// `sizes` holds the number of rows, the input width and the output width. `tracked` says which of
/// x, weight and bias have gradients. If `is_transposed`, the weight is a transposed view.
#[derive(Clone, Copy, Debug)]
struct Case {
    sizes: [usize; 3],
    tracked: [bool; 3],
    has_bias: bool,
    is_transposed: bool,
}

fn check(case: Case) {
    let Case {
        sizes: [m, k, n],
        tracked,
        has_bias,
        is_transposed,
    } = case;
    let device = Device::flex().autodiff();
    let (x, w) = (floats(m * k, 1, 1.0), floats(k * n, 2, 1.0));
    let (b, dy) = (floats(n, 3, 1.0), floats(m * n, 4, 1.0));
    let leaf = |data: Vec<f32>, shape: [usize; 2], is_tracked: bool| {
        let tensor = Tensor::<2>::from_data(TensorData::new(data, shape), &device);
        tensor.set_require_grad(is_tracked)
    };
    let x_leaf = leaf(x.clone(), [m, k], tracked[0]);
    let w_leaf = if is_transposed {
        let w_t = (0..k * n).map(|i| w[i % k * n + i / k]).collect();
        leaf(w_t, [n, k], tracked[1])
    } else {
        leaf(w.clone(), [k, n], tracked[1])
    };
    let b_leaf = Tensor::<1>::from_data(TensorData::new(b.clone(), [n]), &device);
    let b_leaf = b_leaf.set_require_grad(tracked[2]);
    let weight = if is_transposed {
        w_leaf.clone().transpose()
    } else {
        w_leaf.clone()
    };
    let bias = has_bias.then(|| b_leaf.clone());
    let y = fused::linear(x_leaf.clone(), weight.clone(), bias.clone());
    let plain = module::linear(x_leaf.clone(), weight, bias).into_data();
    let plain: Vec<f64> = plain.iter().collect();
    assert_close("y", &y.clone().into_data(), &plain, 1e-5);
    if !(tracked[0] || tracked[1] || (tracked[2] && has_bias)) {
        return;
    }
    let dy_tensor = Tensor::<2>::from_data(TensorData::new(dy.clone(), [m, n]), &device);
    let gradients = (y * dy_tensor).sum().backward();

    let sum = |rows: usize, columns: usize, term: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..rows * columns)
            .map(|i| term(i / columns, i % columns))
            .collect()
    };
    let x_grad = x_leaf.grad(&gradients);
    assert_eq!(x_grad.is_some(), tracked[0]);
    if let Some(grad) = x_grad {
        let expected = sum(m, k, &|row, column| {
            let terms = (0..n).map(|j| f64::from(dy[row * n + j]) * f64::from(w[column * n + j]));
            terms.sum()
        });
        assert_close("dx", &grad.into_data(), &expected, 1e-5);
    }
    let w_grad = w_leaf.grad(&gradients);
    assert_eq!(w_grad.is_some(), tracked[1]);
    if let Some(grad) = w_grad {
        let grad = if is_transposed {
            grad.transpose()
        } else {
            grad
        };
        let expected = sum(k, n, &|row, column| {
            let terms = (0..m).map(|i| f64::from(x[i * k + row]) * f64::from(dy[i * n + column]));
            terms.sum()
        });
        assert_close("dW", &grad.into_data(), &expected, 1e-5);
    }
    let b_grad = b_leaf.grad(&gradients);
    assert_eq!(b_grad.is_some(), tracked[2] && has_bias);
    if let Some(grad) = b_grad {
        let expected = sum(1, n, &|_, column| {
            (0..m).map(|i| f64::from(dy[i * n + column])).sum()
        });
        assert_close("db", &grad.into_data(), &expected, 1e-5);
    }
}

#[test]
fn a_linear_layers_gradients_are_the_sums_of_its_products() {
    for sizes in [[1, 1, 1], [5, 7, 3], [64, 33, 50], [200, 100, 120]] {
        check(Case {
            sizes,
            tracked: [true; 3],
            has_bias: true,
            is_transposed: false,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn gradients_of_any_linear_layer_are_the_sums_of_its_products(
        sizes in [1..40usize, 1..40usize, 1..60usize],
        tracked: [bool; 3],
        has_bias: bool,
        is_transposed: bool,
    ) {
        check(Case { sizes, tracked, has_bias, is_transposed });
    }
}

#[test]
fn gradient_checkpointing_changes_nothing() {
    let gradients = |device: &Device| {
        let tensor = |seed, shape: [usize; 2]| {
            let data = TensorData::new(floats(shape[0] * shape[1], seed, 1.0), shape);
            Tensor::<2>::from_data(data, device).require_grad()
        };
        let (x, w) = (tensor(1, [9, 8]), tensor(2, [8, 7]));
        let y = fused::linear(x.clone().tanh(), w.clone(), None);
        let gradients = y.square().sum().backward();
        [x, w].map(|leaf| leaf.grad(&gradients).unwrap().into_data())
    };
    let device = Device::flex().autodiff();
    assert_eq!(
        gradients(&device),
        gradients(&device.clone().gradient_checkpointing())
    );
}
