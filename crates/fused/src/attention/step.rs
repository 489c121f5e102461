//! Attention of one query for each row, to keys and values where they lie.

use burn::tensor::{Bool, Tensor};

/// Where a row finds its keys and values in a packed buffer.
#[derive(Clone, Copy, Debug)]
pub enum Places<'a> {
    /// All keys of row `i` are in the buffer's row `rows[i]`: `[R]`.
    Rows(&'a [u32]),
    /// Key `t` of row `i` is at the buffer's row `rows[i T + t]`, position `t`: `[R T]`.
    Tokens(&'a [u32]),
}

/// `softmax(q K^T / sqrt(K)) V` for one query a row, without copying keys or values together; none
/// where the backend has no path of its own for it, or the mask is of another kind.
///
/// # Shapes
///
/// - query: `[R, 1, H, K]`
/// - packed: keys and then values, `[N, C, 2 H, K]`
/// - length: number of keys `T` of each row, positions `0..T`, at most `C`
/// - mask: `[N, 1, 1, T]`, `true` = blocked
/// - output: `[R, 1, H K]`; zeros for a row whose keys are all blocked
///
/// # Panics
///
/// If the shapes do not fit together, or a place is outside the buffer.
pub fn attention_step(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    places: Places<'_>,
    length: usize,
    mask: Option<&Tensor<4, Bool>>,
) -> Option<Tensor<3>> {
    #[cfg(feature = "flex")]
    return on_flex(query, packed, places, length, mask);
    #[cfg(not(feature = "flex"))]
    {
        let _ = (query, packed, places, length, mask);
        None
    }
}

#[cfg(feature = "flex")]
fn on_flex(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    places: Places<'_>,
    length: usize,
    mask: Option<&Tensor<4, Bool>>,
) -> Option<Tensor<3>> {
    use crate::flex::{bool, float, tensor};
    use pulp::Arch;
    use rayon::prelude::*;

    let [rows, one, n_heads, d_head] = query.dims();
    let [n, capacity, packed_heads, packed_d_head] = packed.dims();
    let (n_places, expected) = match places {
        Places::Rows(at) => (at.len(), rows),
        Places::Tokens(at) => (at.len(), rows * length),
    };
    assert!(
        one == 1
            && (packed_heads, packed_d_head) == (2 * n_heads, d_head)
            && length <= capacity
            && n_places == expected,
        "the query is [{rows}, {one}, {n_heads}, {d_head}], but keys and values are [{n}, {capacity}, {packed_heads}, {packed_d_head}] and there are {n_places} places, not {expected}, for {length} keys a row"
    );
    let (query, packed) = (float(query)?, float(packed)?.to_contiguous());
    let [query_stride, _, head_stride, 1] = *query.layout().strides() else {
        return None;
    };
    if head_stride != d_head as isize {
        return None;
    }
    let mask = match mask {
        Some(mask) => {
            if mask.dims() != [n, 1, 1, length] {
                return None;
            }
            Some(bool(mask)?.to_contiguous())
        }
        None => None,
    };
    let step = Step {
        query: &query.storage()[query.layout().start_offset()..],
        query_stride: query_stride as usize,
        packed: packed.as_slice().expect("it is contiguous"),
        capacity,
        places,
        length,
        mask: mask.as_ref().map(|mask| {
            let begin = mask.layout().start_offset();
            &mask.storage::<u8>()[begin..begin + n * length]
        }),
        n_heads,
        d_head,
    };
    let width = n_heads * d_head;
    let mut output = crate::buffers::Buffer::zeros(rows * width);
    let arch = Arch::new();
    if rows * length * width < PARALLEL {
        arch.dispatch(Rows {
            step: &step,
            first: 0,
            output: &mut output,
        });
    } else {
        let some = rows.div_ceil(4 * rayon::current_num_threads());
        let parts = output.par_chunks_mut(some * width).enumerate();
        parts.for_each(|(index, output)| {
            arch.dispatch(Rows {
                step: &step,
                first: index * some,
                output,
            });
        });
    }
    Some(tensor(output, [rows, 1, width]))
}

/// Numbers read below which a second thread costs more than it brings.
#[cfg(feature = "flex")]
const PARALLEL: usize = 1 << 16;

#[cfg(feature = "flex")]
thread_local! {
    static WEIGHTS: std::cell::Cell<Vec<f32>> = const { std::cell::Cell::new(Vec::new()) };
}

#[cfg(feature = "flex")]
struct Step<'a> {
    query: &'a [f32],
    query_stride: usize,
    packed: &'a [f32],
    capacity: usize,
    places: Places<'a>,
    length: usize,
    mask: Option<&'a [u8]>,
    n_heads: usize,
    d_head: usize,
}

#[cfg(feature = "flex")]
impl Step<'_> {
    /// The buffer's row of key `t` of row `row`.
    #[inline(always)]
    fn place(&self, row: usize, t: usize) -> usize {
        match self.places {
            Places::Rows(at) => at[row] as usize,
            Places::Tokens(at) => at[row * self.length + t] as usize,
        }
    }

    /// Keys (`part` 0) or values (1) of all heads of a row's token `t`.
    #[inline(always)]
    fn heads(&self, row: usize, t: usize, part: usize) -> std::slice::ChunksExact<'_, f32> {
        let token = self.place(row, t) * self.capacity + t;
        let width = self.n_heads * self.d_head;
        let begin = (token * 2 + part) * width;
        self.packed[begin..begin + width].chunks_exact(self.d_head)
    }

    fn is_blocked(&self, row: usize, t: usize) -> bool {
        self.mask
            .is_some_and(|mask| mask[self.place(row, t) * self.length + t] != 0)
    }
}

/// The outputs from row `first` on.
#[cfg(feature = "flex")]
struct Rows<'a> {
    step: &'a Step<'a>,
    first: usize,
    output: &'a mut [f32],
}

#[cfg(feature = "flex")]
impl pulp::WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self {
            step,
            first,
            output,
        } = self;
        let scale = 1.0 / (step.d_head as f32).sqrt();
        let width = step.n_heads * step.d_head;
        // One token after the other, all heads of each, as they lie in memory: `[H, T]`.
        let mut weights = WEIGHTS.take();
        weights.resize(step.n_heads * step.length, 0.0);
        for (row, output) in (first..).zip(output.chunks_exact_mut(width)) {
            let query = &step.query[row * step.query_stride..][..width];
            for t in 0..step.length {
                let weights = weights[t..].iter_mut().step_by(step.length);
                if step.is_blocked(row, t) {
                    weights.for_each(|weight| *weight = f32::NEG_INFINITY);
                    continue;
                }
                let queries = query.chunks_exact(step.d_head);
                for ((weight, query), key) in weights.zip(queries).zip(step.heads(row, t, 0)) {
                    *weight = scale * dot(simd, query, key);
                }
            }
            for weights in weights.chunks_exact_mut(step.length) {
                let Some(largest) = super::kernel::largest(weights) else {
                    weights.fill(0.0);
                    continue;
                };
                let sum = crate::log_sum_exp::exponentiate(simd, weights, largest);
                for weight in weights {
                    *weight /= sum;
                }
            }
            for t in 0..step.length {
                let weights = weights[t..].iter().step_by(step.length);
                let outputs = output.chunks_exact_mut(step.d_head);
                for ((&weight, output), value) in weights.zip(outputs).zip(step.heads(row, t, 1)) {
                    if weight != 0.0 {
                        add_scaled(simd, output, weight, value);
                    }
                }
            }
        }
        WEIGHTS.set(weights);
    }
}

#[cfg(feature = "flex")]
#[inline(always)]
pub(super) fn dot<S: pulp::Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let (a, a_tail) = S::as_simd_f32s(a);
    let (b, b_tail) = S::as_simd_f32s(b);
    let mut sum = simd.splat_f32s(0.0);
    for (&a, &b) in a.iter().zip(b) {
        sum = simd.mul_add_e_f32s(a, b, sum);
    }
    if !a_tail.is_empty() {
        let (a, b) = (
            simd.partial_load_f32s(a_tail),
            simd.partial_load_f32s(b_tail),
        );
        sum = simd.mul_add_e_f32s(a, b, sum);
    }
    simd.reduce_sum_f32s(sum)
}

#[cfg(feature = "flex")]
#[inline(always)]
fn add_scaled<S: pulp::Simd>(simd: S, to: &mut [f32], factor: f32, from: &[f32]) {
    let factor = simd.splat_f32s(factor);
    let (to, to_tail) = S::as_mut_simd_f32s(to);
    let (from, from_tail) = S::as_simd_f32s(from);
    for (to, &from) in to.iter_mut().zip(from) {
        *to = simd.mul_add_e_f32s(factor, from, *to);
    }
    if !to_tail.is_empty() {
        let (old, from) = (
            simd.partial_load_f32s(to_tail),
            simd.partial_load_f32s(from_tail),
        );
        simd.partial_store_f32s(to_tail, simd.mul_add_e_f32s(factor, from, old));
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::tensor::{Device, Int, Tensor, TensorData, module};

    use super::*;

    fn numbers(shape: [usize; 4], seed: usize) -> Tensor<4> {
        let n = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..n)
            .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
            .collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    /// The same by gathering, through Burn's own operation.
    fn reference(
        query: Tensor<4>,
        packed: Tensor<4>,
        at: &[u32],
        length: usize,
        mask: Option<Tensor<4, Bool>>,
    ) -> Tensor<3> {
        let [n, capacity, heads, d_head] = packed.dims();
        let rows = query.dims()[0];
        let index = |place: fn(u32, usize, usize) -> usize| -> Vec<i64> {
            let all = at.iter().enumerate();
            all.map(|(i, &row)| place(row, i % length, capacity) as i64)
                .collect()
        };
        let tokens = index(|row, t, capacity| row as usize * capacity + t);
        let tokens = Tensor::<1, Int>::from_data(&tokens[..], &Device::flex());
        let all = packed
            .reshape([n * capacity, heads * d_head])
            .select(0, tokens)
            .reshape([rows, length, heads, d_head])
            .swap_dims(1, 2);
        let key = all.clone().narrow(1, 0, heads / 2);
        let value = all.narrow(1, heads / 2, heads / 2);
        let query = query.swap_dims(1, 2);
        let mask = mask.map(|mask| mask.expand([rows, heads / 2, 1, length]));
        module::attention(query, key, value, mask, None, Default::default())
            .swap_dims(1, 2)
            .reshape([rows, 1, heads / 2 * d_head])
    }

    fn assert_close(actual: Tensor<3>, expected: Tensor<3>) {
        assert_eq!(actual.dims(), expected.dims());
        let difference = (actual - expected).abs().max().into_scalar::<f32>();
        assert!(difference < 1e-5, "{difference} off");
    }

    #[test]
    fn scattered_tokens_are_found() {
        for (rows, n_heads, d_head, length) in
            [(1, 1, 4, 1), (5, 3, 14, 9), (7, 2, 16, 40), (80, 8, 64, 33)]
        {
            let packed = numbers([rows + 2, length + 3, 2 * n_heads, d_head], 1);
            // A view of a packed projection, as the model makes it.
            let query = numbers([rows, 1, 3 * n_heads, d_head], 2).narrow(2, 0, n_heads);
            let at: Vec<u32> = (0..rows * length)
                .map(|i| (i * 31 % (rows + 2)) as u32)
                .collect();
            let actual =
                attention_step(&query, &packed, Places::Tokens(&at), length, None).unwrap();
            assert_close(actual, reference(query, packed, &at, length, None));
        }
    }

    #[test]
    fn rows_share_a_source_and_its_mask() {
        let (rows, n_heads, d_head, length) = (6, 2, 10, 21);
        let packed = numbers([3, length, 2 * n_heads, d_head], 1);
        let query = numbers([rows, 1, n_heads, d_head], 2);
        let source = [0u32, 0, 2, 2, 2, 1];
        let mask: Vec<bool> = (0..3 * length)
            .map(|i| i % length > 7 * (i / length))
            .collect();
        let mask = TensorData::new(mask, [3, 1, 1, length]);
        let mask = Tensor::<4, Bool>::from_data(mask, &Device::flex());
        let actual =
            attention_step(&query, &packed, Places::Rows(&source), length, Some(&mask)).unwrap();
        let at: Vec<u32> = source.iter().flat_map(|&row| vec![row; length]).collect();
        let own = source.map(i64::from);
        let own = mask.select(0, Tensor::<1, Int>::from_data(own, &Device::flex()));
        assert_close(actual, reference(query, packed, &at, length, Some(own)));
    }

    #[test]
    fn a_row_that_sees_nothing_is_zero() {
        let packed = numbers([1, 5, 2, 4], 1);
        let mask = Tensor::<4, Bool>::from_data([[[[true; 5]]]], &Device::flex());
        let query = numbers([1, 1, 1, 4], 2);
        let output = attention_step(&query, &packed, Places::Rows(&[0]), 5, Some(&mask)).unwrap();
        assert_eq!(
            output.into_data().iter::<f32>().collect::<Vec<_>>(),
            [0.0; 4]
        );
    }

    #[test]
    fn what_is_not_a_number_is_not_hidden() {
        let spoilt = |x: Tensor<4>, from: usize| {
            let mut values: Vec<f32> = x.to_data().iter().collect();
            values[from] = f32::NAN;
            Tensor::<4>::from_data(TensorData::new(values, x.dims()), &Device::flex())
        };
        let (query, packed) = (numbers([2, 1, 1, 4], 1), numbers([2, 5, 2, 4], 2));
        // Of the second row: its query, and the key of its third token.
        for (query, packed) in [
            (spoilt(query.clone(), 4), packed.clone()),
            (query.clone(), spoilt(packed.clone(), (5 + 2) * 2 * 4)),
        ] {
            let output = attention_step(&query, &packed, Places::Rows(&[0, 1]), 5, None).unwrap();
            let output: Vec<f32> = output.into_data().iter().collect();
            assert!(output[..4].iter().all(|x| x.is_finite()), "{output:?}");
            assert!(output[4..].iter().all(|x| x.is_nan()), "{output:?}");
        }
    }

    #[test]
    fn what_needs_a_gradient_is_left_to_others() {
        let packed = numbers([1, 5, 2, 4], 1);
        let query = numbers([1, 1, 1, 4], 2);
        let query = Tensor::from_data(query.into_data(), &Device::flex().autodiff());
        assert!(attention_step(&query, &packed, Places::Rows(&[0]), 5, None).is_none());
    }
}
