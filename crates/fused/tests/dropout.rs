//! Checks that elements are dropped with the given probability and without a pattern, and that the
//! forward and the backward pass drop the same elements.

use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

const N: usize = 200_003;

fn device(seed: u64) -> Device {
    let device = Device::flex().autodiff();
    device.seed(seed);
    device
}

/// Each test that sets the seed holds this lock, since all tests of the process share one random
/// generator.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn dropped(seed: u64, n: usize, probability: f64) -> Vec<bool> {
    let device = device(seed);
    let y = fused::dropout(Tensor::<1>::ones([n], &device), probability).into_data();
    let kept = (1.0 / (1.0 - probability)) as f32;
    y.iter::<f32>()
        .map(|y| {
            assert!(y == 0.0 || y == kept, "{y}, neither 0 nor {kept}");
            y == 0.0
        })
        .collect()
}

/// Returns whether `count` hits in `n` draws with probability `p` are likely: within five standard
/// deviations of the expected number, `n * p`.
fn is_likely(count: usize, n: usize, p: f64) -> bool {
    let deviation = (n as f64 * p * (1.0 - p)).sqrt();
    (count as f64 - n as f64 * p).abs() < 5.0 * deviation
}

fn count(bits: impl Iterator<Item = bool>) -> usize {
    bits.filter(|&bit| bit).count()
}

#[test]
fn elements_are_dropped_with_the_probability_and_without_a_pattern() {
    let _turn = TURN.lock();
    for (seed, p) in [(1, 0.1), (2, 0.5), (3, 0.9), (4, 0.001)] {
        let bits = dropped(seed, N, p);
        assert!(is_likely(count(bits.iter().copied()), N, p), "{p}");
        // Elements that are `lag` apart must be dropped independently. The lags cover neighbours,
        // and elements that different threads compute.
        for lag in [1, 2, 3, 16, 64, 512, 1 << 14, 1 << 15] {
            let pairs = bits.iter().zip(&bits[lag..]).map(|(a, b)| *a && *b);
            assert!(is_likely(count(pairs), N - lag, p * p), "{p}, lag {lag}");
        }
    }
}

#[test]
fn masks_differ_by_call_and_are_repeated_by_seed() {
    let _turn = TURN.lock();
    let one = dropped(7, N, 0.3);
    assert_eq!(one, dropped(7, N, 0.3));
    let both = |other: &[bool]| count(one.iter().zip(other).map(|(a, b)| *a && *b));
    assert!(is_likely(both(&dropped(8, N, 0.3)), N, 0.09));
    let device = device(7);
    let call = || {
        let y = fused::dropout(Tensor::<1>::ones([N], &device), 0.3).into_data();
        y.iter::<f32>().map(|y| y == 0.0).collect::<Vec<_>>()
    };
    assert_eq!(call(), one);
    assert!(is_likely(both(&call()), N, 0.09));
}

#[test]
fn gradients_are_dropped_with_the_values() {
    let _turn = TURN.lock();
    for shape in [[1, 1], [3, 7], [300, 100]] {
        let x = Tensor::<2>::ones(shape, &device(5)).require_grad();
        let y = fused::dropout(x.clone(), 0.4);
        let gradients = y.clone().sum().backward();
        assert_eq!(x.grad(&gradients).unwrap().into_data(), y.into_data());
        let ones = x.into_data();
        assert!(ones.iter::<f32>().all(|x| x == 1.0), "x was changed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_shape_is_dropped_as_a_row_of_its_length(
        shape in [1..60usize, 1..900usize],
        probability in 0.01..0.99,
        seed: u64,
    ) {
        let _turn = TURN.lock();
        let [rows, columns] = shape;
        let row = dropped(seed, rows * columns, probability);
        let x = Tensor::<2>::ones(shape, &device(seed)).require_grad();
        let y = fused::dropout(x.clone(), probability);
        let gradients = y.clone().sum().backward();
        let y = y.into_data();
        prop_assert_eq!(x.grad(&gradients).unwrap().into_data(), y.clone());
        prop_assert_eq!(y.iter::<f32>().map(|y| y == 0.0).collect::<Vec<_>>(), row);
    }
}

#[test]
fn views_are_dropped_in_their_own_order() {
    let _turn = TURN.lock();
    let elements: Vec<f32> = (1..=12).map(|i| i as f32).collect();
    let x = Tensor::<2>::from_data(TensorData::new(elements, [3, 4]), &device(9));
    let ones = Tensor::<2>::ones([4, 3], &device(9));
    let mask = fused::dropout(ones, 0.5);
    device(9);
    let y = fused::dropout(x.clone().transpose(), 0.5);
    let expected = (mask * x.transpose()).into_data();
    assert_eq!(y.into_data(), expected);
}

#[test]
fn nothing_is_dropped_with_probability_0_or_without_autodiff() {
    let _turn = TURN.lock();
    let x = Tensor::<1>::ones([100], &device(1));
    assert_eq!(fused::dropout(x.clone(), 0.0).into_data(), x.into_data());
    let x = Tensor::<1>::ones([100], &Device::flex());
    assert_eq!(fused::dropout(x.clone(), 0.5).into_data(), x.into_data());
}

#[test]
#[should_panic(expected = "is 1, but must be at least 0 and less than 1")]
fn a_probability_of_one_is_rejected() {
    fused::dropout(Tensor::<1>::ones([1], &Device::flex()), 1.0);
}
