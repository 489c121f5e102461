//! Dropout by a mask, which is kept, or computed again in the backward pass from a key.
//!
//! For the second kind, the host computes random numbers of 31 bits, one for each column and two for
//! each row, an odd factor and a summand; an element's is `factor column + summand`, which the
//! device does, modulo 2^31, so that integers of 32 bits that wrap and those of 64 make the same of
//! them.

use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn::backend::{Backend, get_device_settings};
use burn::tensor::{DType, IntDType, Scalar, TensorData};

use crate::dropout::mix_64;

const MASK: i32 = i32::MAX;

/// Which elements are dropped, unless the probability is 0.
#[derive(Clone, Debug)]
pub(super) struct Dropped<B: Backend> {
    pub mask: BoolTensor<B>,
    pub probability: f64,
}

impl<B: Backend> Dropped<B> {
    pub fn apply(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        scaled_up::<B>(self.masked(x), self.probability)
    }

    /// The same without the factor, which [`scaled_up`] applies, before or after a product.
    pub fn masked(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        match self.probability > 0.0 {
            true => B::float_mask_fill(x, self.mask.clone(), 0.0.into()),
            false => x,
        }
    }
}

/// What is kept, divided by the probability of being kept.
pub(super) fn scaled_up<B: Backend>(x: FloatTensor<B>, probability: f64) -> FloatTensor<B> {
    match probability > 0.0 {
        true => B::float_mul_scalar(x, (1.0 / (1.0 - probability)).into()),
        false => x,
    }
}

/// Which elements of `[B, H, n, S]` are dropped, as a function of the key and their place; the rows
/// have these numbers.
pub(super) fn dropped<B: Backend>(
    key: u64,
    probability: f64,
    rows: impl Iterator<Item = usize>,
    shape: [usize; 4],
    device: &Device<B>,
) -> BoolTensor<B> {
    let settings = get_device_settings::<B>(device);
    let dtype = match settings.int_dtype {
        IntDType::I64 | IntDType::U64 => DType::I64,
        _ => DType::I32,
    };
    let [batch, n_heads, n, s] = shape;
    let tensor = |words: Vec<i32>, shape: [usize; 4]| {
        B::int_from_data(TensorData::new(words, shape).convert_dtype(dtype), device)
    };
    let word = |key: u64, place: usize| (mix_64(key ^ mix_64(place as u64)) >> 33) as i32;
    let [first, second, third] = [0, 1, 2].map(|n| mix_64(key.wrapping_add(n)));
    // An odd factor loses no bit of a column's.
    let of_rows = |row| (word(first, row) | 1, word(second, row));
    let (factors, summands) = rows.map(of_rows).unzip();
    let columns = (0..s).map(|column| word(third, column)).collect();
    let [factors, summands] =
        [factors, summands].map(|words| tensor(words, [batch, n_heads, n, 1]));
    let bits = bits::<B>(factors, tensor(columns, [1, 1, 1, s]), summands);
    let below = (probability * f64::from(MASK)).round() as i32;
    B::int_lower_elem(bits, Scalar::from(below), settings.bool_dtype)
}

/// `factor column + summand`, modulo 2^31.
fn bits<B: Backend>(
    factors: IntTensor<B>,
    columns: IntTensor<B>,
    summands: IntTensor<B>,
) -> IntTensor<B> {
    let sum = B::int_add(B::int_mul(columns, factors), summands);
    B::bitwise_and_scalar(sum, Scalar::from(MASK))
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::backend::Flex;
    use burn::backend::ops::IntTensorOps;
    use burn::tensor::DType;

    use super::*;

    /// Of `[2, 2, 300, 700]`, from this one of 500 rows on.
    fn mask(key: u64, probability: f64, first: usize) -> Vec<bool> {
        let rows = (0..4).flat_map(|head| (first..first + 300).map(move |row| head * 500 + row));
        let device = Device::<Flex>::default();
        let mask = dropped::<Flex>(key, probability, rows, [2, 2, 300, 700], &device);
        mask.into_data().convert::<bool>().into_vec().unwrap()
    }

    #[test]
    fn rows_do_not_depend_on_where_a_block_begins() {
        let (whole, later) = (mask(7, 0.3, 0), mask(7, 0.3, 100));
        for head in 0..4 {
            let at = |row: usize| (head * 300 + row) * 700;
            assert!(whole[at(100)..at(300)] == later[at(0)..at(200)]);
        }
        assert!(whole != mask(8, 0.3, 0));
    }

    #[test]
    fn places_are_dropped_as_if_each_for_itself() {
        for (key, probability) in [(42, 0.3), (43, 0.1), (u64::MAX, 0.5)] {
            check_independence(key, probability);
        }
    }

    fn check_independence(key: u64, probability: f64) {
        let mask = mask(key, probability, 0);
        let rows: Vec<&[bool]> = mask.chunks(700).collect();
        let share = |dropped: usize, of: usize| dropped as f64 / of as f64;
        // Deviations of a mean of n: sqrt(p (1 - p) / n).
        let near = |found: f64, expected: f64, n: usize| {
            let deviation = (expected * (1.0 - expected) / n as f64).sqrt();
            assert!(
                (found - expected).abs() < 5.0 * deviation,
                "{found}, not {expected}"
            );
        };
        for row in &rows {
            let dropped = row.iter().filter(|x| **x).count();
            near(share(dropped, 700), probability, 700);
        }
        for column in 0..700 {
            let dropped = rows.iter().filter(|row| row[column]).count();
            near(share(dropped, 1200), probability, 1200);
        }
        // Both of two rows, of all pairs: the number that numbers for themselves would give.
        for (row, other) in (0..rows.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let pairs = rows[row].iter().zip(rows[other]);
            let both = pairs.filter(|(a, b)| **a && **b).count();
            let (expected, n) = (probability.powi(2), 700.0);
            let deviation = (expected * (1.0 - expected) / n).sqrt();
            // Seven deviations: there are 700,000 pairs.
            assert!((both as f64 / n - expected).abs() < 7.0 * deviation);
        }
        // The corners of a rectangle, which a hash of rows and columns apart would make dependent.
        for (down, right) in [(1, 1), (1, 2), (2, 1), (300, 350)] {
            let (mut n, mut all) = (0, 0);
            for row in 0..1200 - down {
                for column in 0..700 - right {
                    let corners = [(0, 0), (down, 0), (0, right), (down, right)];
                    n += 1;
                    all += usize::from(corners.iter().all(|(d, r)| rows[row + d][column + r]));
                }
            }
            // Rectangles share corners: three times the deviation.
            near(share(all, n), probability.powi(4), n / 9);
        }
    }

    #[test]
    fn every_kind_of_integer_makes_the_same_bits() {
        let words: [i64; 5] = [0, 1, 0x1234_5678, 0x7fff_ffff, 0x4000_0001];
        let expected: Vec<i64> = words
            .iter()
            .flat_map(|row| words.map(|column| (row * column + (row ^ 0x55aa)) & 0x7fff_ffff))
            .collect();
        let found = |dtype| -> Vec<i64> {
            let tensor = |words: [i64; 5], shape: [usize; 2]| {
                let data = TensorData::new(words.to_vec(), shape).convert_dtype(dtype);
                Flex::int_from_data(data, &Device::<Flex>::default())
            };
            let summands = words.map(|row| row ^ 0x55aa);
            let (factors, summands) = (tensor(words, [5, 1]), tensor(summands, [5, 1]));
            let bits = bits::<Flex>(factors, tensor(words, [1, 5]), summands);
            bits.into_data().iter().collect()
        };
        assert_eq!(found(DType::I64), expected);
        assert_eq!(found(DType::I32), expected);
    }
}
