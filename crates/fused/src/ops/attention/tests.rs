//! Tests of attention with a cache, with a bias, and without the scale.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData, module};

use super::{CacheIndex, ScoreTerms, attention_step, cross_attention, self_attention};

fn elements(shape: [usize; 4], seed: usize) -> Tensor<4> {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

/// Gathers keys and values from the cache, and returns the attention that Burn's own operation
/// computes. Token `t` of target `i` is in row `at[i * length + t]` of the cache.
fn reference(
    query: Tensor<4>,
    packed: Tensor<4>,
    at: &[u32],
    length: usize,
    mask: Option<Tensor<4, Bool>>,
) -> Tensor<3> {
    let [n, capacity, heads, d_head] = packed.dims();
    let rows = query.dims()[0];
    let index = |position: fn(u32, usize, usize) -> usize| -> Vec<i64> {
        let all = at.iter().enumerate();
        all.map(|(i, &row)| position(row, i % length, capacity) as i64)
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
fn scattered_tokens_are_read() {
    for (rows, n_heads, d_head, length) in
        [(1, 1, 4, 1), (5, 3, 14, 9), (7, 2, 16, 40), (80, 8, 64, 33)]
    {
        let packed = elements([rows + 2, length + 3, 2 * n_heads, d_head], 1);
        // The query is a view of a packed projection, as in the model.
        let query = elements([rows, 1, 3 * n_heads, d_head], 2).narrow(2, 0, n_heads);
        let at: Vec<u32> = (0..rows * length)
            .map(|i| (i * 31 % (rows + 2)) as u32)
            .collect();
        let actual =
            attention_step(&query, &packed, CacheIndex::Tokens(&at), length, None).unwrap();
        assert_close(actual, reference(query, packed, &at, length, None));
    }
}

#[test]
fn rows_share_a_source_and_its_mask() {
    let (rows, n_heads, d_head, length) = (6, 2, 10, 21);
    let packed = elements([3, length, 2 * n_heads, d_head], 1);
    let query = elements([rows, 1, n_heads, d_head], 2);
    let source = [0u32, 0, 2, 2, 2, 1];
    let mask: Vec<bool> = (0..3 * length)
        .map(|i| i % length > 7 * (i / length))
        .collect();
    let mask = TensorData::new(mask, [3, 1, 1, length]);
    let mask = Tensor::<4, Bool>::from_data(mask, &Device::flex());
    let actual = attention_step(
        &query,
        &packed,
        CacheIndex::Rows(&source),
        length,
        Some(&mask),
    )
    .unwrap();
    let at: Vec<u32> = source.iter().flat_map(|&row| vec![row; length]).collect();
    let own = source.map(i64::from);
    let own = mask.select(0, Tensor::<1, Int>::from_data(own, &Device::flex()));
    assert_close(actual, reference(query, packed, &at, length, Some(own)));
}

#[test]
fn a_target_that_sees_nothing_is_zero() {
    let packed = elements([1, 5, 2, 4], 1);
    let mask = Tensor::<4, Bool>::from_data([[[[true; 5]]]], &Device::flex());
    let query = elements([1, 1, 1, 4], 2);
    let output = attention_step(&query, &packed, CacheIndex::Rows(&[0]), 5, Some(&mask)).unwrap();
    assert_eq!(
        output.into_data().iter::<f32>().collect::<Vec<_>>(),
        [0.0; 4]
    );
}

#[test]
fn a_step_without_keys_is_zero() {
    let packed = elements([1, 5, 2, 4], 1);
    let query = elements([1, 1, 1, 4], 2);
    for index in [CacheIndex::Rows(&[0]), CacheIndex::Tokens(&[])] {
        let output = attention_step(&query, &packed, index, 0, None).unwrap();
        let output: Vec<f32> = output.into_data().iter().collect();
        assert_eq!(output, [0.0; 4]);
    }
}

#[test]
fn nan_is_not_hidden() {
    let spoilt = |x: Tensor<4>, from: usize| {
        let mut values: Vec<f32> = x.to_data().iter().collect();
        values[from] = f32::NAN;
        Tensor::<4>::from_data(TensorData::new(values, x.dims()), &Device::flex())
    };
    let (query, packed) = (elements([2, 1, 1, 4], 1), elements([2, 5, 2, 4], 2));
    // In the first case, the query of the second target has a NaN. In the second case, the key of
    // this target's third token has a NaN.
    for (query, packed) in [
        (spoilt(query.clone(), 4), packed.clone()),
        (query.clone(), spoilt(packed.clone(), (5 + 2) * 2 * 4)),
    ] {
        let output = attention_step(&query, &packed, CacheIndex::Rows(&[0, 1]), 5, None).unwrap();
        let output: Vec<f32> = output.into_data().iter().collect();
        assert!(output[..4].iter().all(|x| x.is_finite()), "{output:?}");
        assert!(output[4..].iter().all(|x| x.is_nan()), "{output:?}");
    }
}

#[test]
fn tensors_with_gradients_have_no_fast_path() {
    let packed = elements([1, 5, 2, 4], 1);
    let query = elements([1, 1, 1, 4], 2);
    let query = Tensor::from_data(query.into_data(), &Device::flex().autodiff());
    assert!(attention_step(&query, &packed, CacheIndex::Rows(&[0]), 5, None).is_none());
}

/// Returns the attention of queries `[B, T, H, K]` to packed keys and values `[B, S, 2 * H, K]`,
/// computed by Burn's own operation.
fn with_terms(query: Tensor<4>, packed: Tensor<4>, terms: ScoreTerms<'_>) -> Tensor<3> {
    let [batch, t, n_heads, d_head] = query.dims();
    let s = packed.dims()[1];
    let heads = packed.swap_dims(1, 2);
    let [key, value] = [0, 1].map(|part| heads.clone().narrow(1, part * n_heads, n_heads));
    let scores = [batch, n_heads, t, s];
    let mask = terms.mask.map(|mask| mask.clone().expand(scores));
    let bias = terms.bias.map(|bias| bias.clone().expand(scores));
    let options = burn::tensor::ops::AttentionModuleOptions {
        scale: terms.is_unscaled.then_some(1.0),
        ..Default::default()
    };
    module::attention(query.swap_dims(1, 2), key, value, mask, bias, options)
        .swap_dims(1, 2)
        .reshape([batch, t, n_heads * d_head])
}

#[test]
fn a_bias_is_added_and_the_scale_can_be_left_out() {
    for (batch, n_heads, d_head, t, s) in [(1, 1, 4, 1, 5), (2, 3, 10, 7, 9), (2, 4, 16, 80, 80)] {
        let mask: Vec<bool> = (0..batch * s).map(|i| i % s > s - 3 && i > s).collect();
        let mask = TensorData::new(mask, [batch, 1, 1, s]);
        let mask = Tensor::<4, Bool>::from_data(mask, &Device::flex());
        for has_bias in [false, true] {
            for is_unscaled in [false, true] {
                // The bias is a view with permuted axes.
                let bias = elements([1, s, n_heads, t], 5).permute([0, 2, 3, 1]);
                let terms = ScoreTerms {
                    mask: Some(&mask),
                    bias: has_bias.then_some(&bias),
                    is_unscaled,
                };
                let query = elements([batch, t, n_heads, d_head], 1);
                let packed = elements([batch, s, 2 * n_heads, d_head], 2);
                // Cross-attention has no fast path with a bias.
                let actual = cross_attention(&query, &packed, terms, 0.0);
                assert_eq!(actual.is_none(), has_bias);
                if let Some(actual) = actual {
                    assert_close(actual, with_terms(query.clone(), packed.clone(), terms));
                }
                if t == 1 {
                    let rows: Vec<u32> = (0..batch as u32).collect();
                    let index = CacheIndex::Rows(&rows);
                    let actual = attention_step(&query, &packed, index, s, terms).unwrap();
                    assert_close(actual, with_terms(query, packed, terms));
                }
                if t == s {
                    let own = elements([batch, t, 3 * n_heads, d_head], 3);
                    let actual = self_attention(&own, n_heads, terms, 0.0).unwrap();
                    let query = own.clone().narrow(2, 0, n_heads);
                    let packed = own.narrow(2, n_heads, 2 * n_heads);
                    assert_close(actual, with_terms(query, packed, terms));
                }
            }
        }
    }
}

#[test]
#[should_panic(
    expected = "the bias is [1, 2, 3, 4], but the scores of a sequence are [1, 1, 3, 4]"
)]
fn a_bias_of_another_shape_is_rejected() {
    let (query, packed) = (elements([1, 3, 1, 4], 1), elements([1, 4, 2, 4], 2));
    let bias = elements([1, 2, 3, 4], 3);
    let terms = ScoreTerms {
        bias: Some(&bias),
        ..ScoreTerms::default()
    };
    cross_attention(&query, &packed, terms, 0.0);
}
