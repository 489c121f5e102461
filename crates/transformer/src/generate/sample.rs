//! Sampling of one token.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};

/// Returns the random generator that draws one token. Its state depends only on the arguments.
pub(super) fn generator(seed: u64, source: u64, sample: u64, position: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, number) in key.chunks_mut(8).zip([seed, source, sample, position]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

/// Draws a token from `softmax(logits / temperature)`.
///
/// If `top_k` is given, the distribution is restricted to the `top_k` likeliest tokens. If `top_p`
/// is given, it is then restricted to the smallest set of likeliest tokens whose total probability
/// is at least `top_p`. Returns `None` if every logit is minus infinity or NaN.
pub(super) fn draw(
    logits: &[f32],
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    rng: &mut impl Rng,
) -> Option<u32> {
    let mut tokens: Vec<(u32, f64)> = (0..)
        .zip(logits)
        .filter(|(_, logit)| **logit > f32::NEG_INFINITY)
        .map(|(token, &logit)| (token, f64::from(logit)))
        .collect();
    let by_value = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if let Some(k) = top_k
        && k < tokens.len()
    {
        tokens.select_nth_unstable_by(k, by_value);
        tokens.truncate(k);
    }
    let largest = tokens.iter().fold(f64::NEG_INFINITY, |m, t| m.max(t.1));
    for (_, value) in &mut tokens {
        *value = ((*value - largest) / temperature).exp();
    }
    if top_k.is_some() || top_p.is_some() {
        // `top_p` keeps the first tokens, so the likeliest must come first. After the selection by
        // `top_k`, the order is arbitrary, and the rounding of the sums below depends on the order.
        tokens.sort_unstable_by(by_value);
    }
    let mut total: f64 = tokens.iter().map(|t| t.1).sum();
    if let Some(p) = top_p {
        let mut sum = 0.0;
        let kept = tokens.iter().position(|t| {
            sum += t.1;
            sum >= p * total
        });
        if let Some(last) = kept {
            tokens.truncate(last + 1);
            total = sum;
        }
    }
    let mut left = rng.random::<f64>() * total;
    for &(token, weight) in &tokens {
        left -= weight;
        if left < 0.0 {
            return Some(token);
        }
    }
    tokens.last().map(|t| t.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(temperature: f64, top_k: Option<usize>, top_p: Option<f64>) -> [f64; 4] {
        // These logits give the four tokens the probabilities 0.1, 0.4, 0.2 and 0.3.
        let logits = [0.1f32, 0.4, 0.2, 0.3].map(f32::ln);
        let mut rng = generator(1, 0, 0, 0);
        let mut frequencies = [0.0; 4];
        let n = 40_000;
        for _ in 0..n {
            let token = draw(&logits, temperature, top_k, top_p, &mut rng).unwrap();
            frequencies[token as usize] += 1.0;
        }
        frequencies.map(|count| count / f64::from(n))
    }

    fn assert_near(actual: [f64; 4], expected: [f64; 4]) {
        // The tolerance is five standard deviations of the relative frequency in 40,000 draws.
        for (a, e) in actual.iter().zip(expected) {
            let tolerance = 5.0 * (e * (1.0 - e) / 40_000.0).sqrt();
            assert!((a - e).abs() <= tolerance, "{actual:?}, not {expected:?}");
        }
    }

    #[test]
    fn draws_have_the_models_distribution() {
        assert_near(frequencies(1.0, None, None), [0.1, 0.4, 0.2, 0.3]);
    }

    #[test]
    fn temperature_is_a_power_of_the_probabilities() {
        let squares = [0.01, 0.16, 0.04, 0.09].map(|x| x / 0.30);
        assert_near(frequencies(0.5, None, None), squares);
    }

    #[test]
    fn a_low_temperature_draws_the_likeliest_token() {
        assert_near(
            frequencies(f64::MIN_POSITIVE, None, None),
            [0.0, 1.0, 0.0, 0.0],
        );
        assert_near(
            frequencies(f64::MIN_POSITIVE, Some(3), Some(0.9)),
            [0.0, 1.0, 0.0, 0.0],
        );
    }

    #[test]
    fn top_k_and_top_p_exclude_unlikely_tokens() {
        assert_near(
            frequencies(1.0, Some(2), None),
            [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0],
        );
        assert_near(
            frequencies(1.0, None, Some(0.65)),
            [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0],
        );
        assert_near(
            frequencies(1.0, None, Some(0.75)),
            [0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0],
        );
        // `top_k` keeps two tokens. The likelier one has probability 4/7, which is enough for
        // `top_p`.
        assert_near(frequencies(1.0, Some(2), Some(0.5)), [0.0, 1.0, 0.0, 0.0]);
        assert_near(frequencies(1.0, Some(1), None), [0.0, 1.0, 0.0, 0.0]);
        // A `top_k` of at least the vocabulary size, four tokens, changes nothing.
        for k in [4, 5] {
            assert_near(frequencies(1.0, Some(k), None), [0.1, 0.4, 0.2, 0.3]);
        }
    }

    #[test]
    fn forbidden_tokens_are_never_drawn() {
        let mut rng = generator(0, 0, 0, 0);
        let logits = [f32::NEG_INFINITY, 0.0, f32::NAN, f32::NEG_INFINITY];
        for _ in 0..100 {
            assert_eq!(draw(&logits, 1.0, None, Some(1.0), &mut rng), Some(1));
        }
        assert_eq!(
            draw(&[f32::NEG_INFINITY; 3], 1.0, None, None, &mut rng),
            None
        );
    }
}
