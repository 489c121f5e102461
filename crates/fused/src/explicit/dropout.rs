//! Dropout by a mask, which is kept, or computed again in the backward pass from a key.
//!
//! For the second kind, each row and each column has 31 random bits, which the host computes; an
//! element's are a hash of both, which the device does, modulo 2^31, so that all kinds of integers
//! make the same of them.

use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn::backend::{Backend, get_device_settings};
use burn::tensor::{DType, IntDType, Scalar, Shape, TensorData};

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
        if self.probability == 0.0 {
            return x;
        }
        let kept = B::float_mask_fill(x, self.mask.clone(), 0.0.into());
        scaled_up::<B>(kept, self.probability)
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
    let words = |key: u64, places: &mut dyn Iterator<Item = usize>, shape: [usize; 4]| {
        let words: Vec<i32> = places
            .map(|place| (mix_64(key ^ mix_64(place as u64)) >> 33) as i32)
            .collect();
        B::int_from_data(TensorData::new(words, shape).convert_dtype(dtype), device)
    };
    let of_rows = words(key, &mut { rows }, [batch, n_heads, n, 1]);
    let of_columns = words(mix_64(key), &mut (0..s), [1, 1, 1, s]);
    let [of_rows, of_columns] =
        [of_rows, of_columns].map(|words| B::int_expand(words, Shape::new(shape)));
    let bits = mix::<B>(B::bitwise_xor(of_rows, of_columns));
    let below = (probability * f64::from(MASK)).round() as i32;
    B::int_lower_elem(bits, Scalar::from(below), settings.bool_dtype)
}

/// A hash of 31 bits, with the constants of Wellons' search for hash functions.
fn mix<B: Backend>(mut x: IntTensor<B>) -> IntTensor<B> {
    for (shift, factor) in [(16, 0x21f0_aaad), (15, 0x535a_2d97)] {
        let high = B::bitwise_right_shift_scalar(x.clone(), Scalar::from(shift));
        let product = B::int_mul_scalar(B::bitwise_xor(x, high), Scalar::from(factor));
        x = B::bitwise_and_scalar(product, Scalar::from(MASK));
    }
    let high = B::bitwise_right_shift_scalar(x.clone(), Scalar::from(15));
    B::bitwise_xor(x, high)
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::backend::Flex;
    use burn::backend::ops::IntTensorOps;
    use burn::tensor::DType;

    use super::*;

    /// Of `[2, 2, 300, 700]`, from this one of 500 rows on.
    fn mask(key: u64, first: usize) -> Vec<bool> {
        let rows = (0..4).flat_map(|head| (first..first + 300).map(move |row| head * 500 + row));
        let device = Device::<Flex>::default();
        let mask = dropped::<Flex>(key, 0.3, rows, [2, 2, 300, 700], &device);
        mask.into_data().convert::<bool>().into_vec().unwrap()
    }

    #[test]
    fn rows_do_not_depend_on_where_a_block_begins() {
        let (whole, later) = (mask(7, 0), mask(7, 100));
        for head in 0..4 {
            let at = |row: usize| (head * 300 + row) * 700;
            assert!(whole[at(100)..at(300)] == later[at(0)..at(200)]);
        }
        assert!(whole != mask(8, 0));
    }

    #[test]
    fn places_are_dropped_as_if_each_for_itself() {
        let mask = mask(42, 0);
        let rows: Vec<&[bool]> = mask.chunks(700).collect();
        let share = |dropped: usize, of: usize| dropped as f64 / of as f64;
        // Deviations of a mean of n: sqrt(0.3 0.7 / n).
        let near = |found: f64, expected: f64, n: usize| {
            let deviation = (expected * (1.0 - expected) / n as f64).sqrt();
            assert!(
                (found - expected).abs() < 5.0 * deviation,
                "{found}, not {expected}"
            );
        };
        for row in &rows {
            near(share(row.iter().filter(|x| **x).count(), 700), 0.3, 700);
        }
        for column in 0..700 {
            let dropped = rows.iter().filter(|row| row[column]).count();
            near(share(dropped, 1200), 0.3, 1200);
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
            near(share(all, n), 0.3f64.powi(4), n / 9);
        }
    }

    #[test]
    fn every_kind_of_integer_makes_the_same_hash() {
        let words = [0, 1, 0x1234_5678, 0x7fff_ffff, 0x4000_0001];
        let expected = words.map(|x: u64| {
            let mut x = x;
            for (shift, factor) in [(16, 0x21f0_aaad), (15, 0x535a_2d97)] {
                x = ((x ^ (x >> shift)) * factor) & 0x7fff_ffff;
            }
            (x ^ (x >> 15)) as i64
        });
        let hash = |dtype| -> Vec<i64> {
            let data = TensorData::from(words.map(|x| x as i64)).convert_dtype(dtype);
            let words = Flex::int_from_data(data, &Device::<Flex>::default());
            mix::<Flex>(words).into_data().iter().collect()
        };
        assert_eq!(hash(DType::I64), expected);
        assert_eq!(hash(DType::I32), expected);
    }
}
