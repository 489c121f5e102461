//! Dropout in Burn's own operations. The mask is kept for the backward pass, or computed again
//! from a key.
//!
//! To compute a mask from a key, the host computes random 31-bit integers: `column` for each
//! column, and an odd `factor` and a `summand` for each row. The device computes the random integer
//! of each element as `factor * column + summand` modulo 2^31, and drops the element if the integer
//! is below a threshold. The result is the same in wrapping 32-bit integers and in 64-bit integers.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Dispatch, ExtensionType, get_device_settings};
use burn::tensor::{DType, Distribution, IntDType, Scalar, Tensor, TensorData};

use super::hash::mix_64;

/// Bit mask that keeps the lowest 31 bits of an integer.
const MASK: i32 = i32::MAX;

/// The dropout mask of a tensor.
#[derive(Clone, Debug, ExtensionType)]
pub(crate) enum DropoutMask<B: Backend> {
    /// No element is dropped.
    None,
    /// Elements are dropped where `dropped` is true, and all others are scaled.
    Drawn {
        /// Mask of the tensor's shape, `true` = dropped.
        dropped: BoolTensor<B>,
        /// Probability that an element is dropped.
        probability: f64,
    },
}

impl<B: Backend> DropoutMask<B> {
    /// Drops elements and scales the others.
    pub fn apply(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        self.scale(self.mask(x))
    }

    /// Drops elements without scaling the others. The caller must also scale, but may instead scale
    /// a smaller tensor, such as the result of a later matmul.
    pub fn mask(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        match self {
            Self::None => x,
            Self::Drawn { dropped, .. } => B::float_mask_fill(x, dropped.clone(), 0.0.into()),
        }
    }

    pub fn probability(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Drawn { probability, .. } => *probability,
        }
    }

    /// Multiplies all elements by `1 / (1 - probability)`.
    pub fn scale(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        scale::<B>(x, self.probability())
    }
}

impl<B: Backend, C: CheckpointStrategy> DropoutMask<Autodiff<B, C>> {
    /// Turns a mask of the autodiff backend into a mask of its inner backend `B`. Both backends
    /// have the same type of boolean tensors.
    pub fn inner(self) -> DropoutMask<B> {
        match self {
            Self::None => DropoutMask::None,
            Self::Drawn {
                dropped,
                probability,
            } => DropoutMask::Drawn {
                dropped,
                probability,
            },
        }
    }
}

/// Draws a dropout mask of the given shape.
pub(crate) fn draw_mask<const D: usize>(
    shape: [usize; D],
    probability: f64,
    device: &burn::tensor::Device,
) -> DropoutMask<Dispatch> {
    if probability > 0.0 {
        DropoutMask::Drawn {
            dropped: draw_dropped(shape, probability, device),
            probability,
        }
    } else {
        DropoutMask::None
    }
}

/// Draws a boolean tensor of the given shape, `true` = dropped.
pub(crate) fn draw_dropped<const D: usize>(
    shape: [usize; D],
    probability: f64,
    device: &burn::tensor::Device,
) -> BoolTensor<Dispatch> {
    let device = device.clone().without_autodiff();
    // The numbers are drawn in f32, since half precision has too few values to compare with a
    // probability.
    let random = Tensor::<D>::random(shape, Distribution::Default, (&device, DType::F32));
    random.lower_elem(probability).into_dispatch()
}

/// Multiplies all elements by `1 / (1 - probability)`.
pub(crate) fn scale<B: Backend>(x: FloatTensor<B>, probability: f64) -> FloatTensor<B> {
    if probability > 0.0 {
        B::float_mul_scalar(x, (1.0 / (1.0 - probability)).into())
    } else {
        x
    }
}

/// Computes a boolean tensor `[B, H, n, S]`, `true` = dropped. Each element depends only on the
/// key, the probability, its column and its row index. `rows` yields the indices of all `B * H * n`
/// rows.
pub(crate) fn dropped_by_key<B: Backend>(
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
    let word = |key: u64, index: usize| (mix_64(key ^ mix_64(index as u64)) >> 33) as i32;
    let [first, second, third] = [0, 1, 2].map(|n| mix_64(key.wrapping_add(n)));
    // Factors are odd. Multiplication by an odd factor is invertible modulo 2^31, so columns with
    // different random integers have different results in each row.
    let of_rows = |row| (word(first, row) | 1, word(second, row));
    let (factors, summands) = rows.map(of_rows).unzip();
    let columns = (0..s).map(|column| word(third, column)).collect();
    let [factors, summands] =
        [factors, summands].map(|words| tensor(words, [batch, n_heads, n, 1]));
    let bits = bits::<B>(factors, tensor(columns, [1, 1, 1, s]), summands);
    let below = (probability * f64::from(MASK)).round() as i32;
    B::int_lower_elem(bits, Scalar::from(below), settings.bool_dtype)
}

/// Returns `factor * column + summand` modulo 2^31 for each row and column.
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

    /// Returns the dropout mask of a block of queries, `[2, 2, 300, 700]`. Each head has 500 rows,
    /// of which the block has the rows `first..first + 300`.
    fn mask(key: u64, probability: f64, first: usize) -> Vec<bool> {
        let rows = (0..4).flat_map(|head| (first..first + 300).map(move |row| head * 500 + row));
        let device = Device::<Flex>::default();
        let mask = dropped_by_key::<Flex>(key, probability, rows, [2, 2, 300, 700], &device);
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
    fn elements_are_dropped_independently() {
        for (key, probability) in [(42, 0.3), (43, 0.1), (u64::MAX, 0.5)] {
            check_independence(key, probability);
        }
    }

    fn check_independence(key: u64, probability: f64) {
        let mask = mask(key, probability, 0);
        let rows: Vec<&[bool]> = mask.chunks(700).collect();
        let share = |dropped: usize, of: usize| dropped as f64 / of as f64;
        // The standard deviation of a mean of n draws is sqrt(p (1 - p) / n).
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
        // For all pairs of rows, counts the columns in which both elements are dropped.
        for (row, other) in (0..rows.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let pairs = rows[row].iter().zip(rows[other]);
            let both = pairs.filter(|(a, b)| **a && **b).count();
            let (expected, n) = (probability.powi(2), 700.0);
            let deviation = (expected * (1.0 - expected) / n).sqrt();
            // The limit is seven standard deviations, since there are about 700,000 pairs.
            assert!((both as f64 / n - expected).abs() < 7.0 * deviation);
        }
        // Counts the rectangles whose four corners are all dropped. The corners would depend on
        // each other if the bits of an element were, for example, the XOR of a hash of its row and
        // a hash of its column.
        for (down, across) in [(1, 1), (1, 2), (2, 1), (300, 350)] {
            let (mut n, mut all) = (0, 0);
            for row in 0..1200 - down {
                for column in 0..700 - across {
                    let corners = [(0, 0), (down, 0), (0, across), (down, across)];
                    n += 1;
                    all += usize::from(corners.iter().all(|(d, r)| rows[row + d][column + r]));
                }
            }
            // Rectangles share corners, so they are not independent. With `n / 9`, the tolerance is
            // three times as wide as for `n` independent samples.
            near(share(all, n), probability.powi(4), n / 9);
        }
    }

    #[test]
    fn all_integer_types_give_the_same_bits() {
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
