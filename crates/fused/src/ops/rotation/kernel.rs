//! Rotation on slices.

use crate::parallel;
use crate::simd::level::arch;

/// Number of tokens in a piece for one thread.
const TOKENS: usize = 32;

/// Rotates the first `n_heads` heads of each token of `x`, `[B, T, H, K]`, in place. `cos` and `sin`
/// are `[T, K/2]`. The sines are multiplied by `sign`; -1 turns back.
pub(super) fn rotate(
    x: &mut [f32],
    [heads, k, n_heads]: [usize; 3],
    cos: &[f32],
    sin: &[f32],
    sign: f32,
) {
    if cos.is_empty() || n_heads == 0 {
        return;
    }
    let run = |(piece, tokens): (usize, &mut [f32])| {
        let length = cos.len() / (k / 2);
        let first = piece * TOKENS;
        arch().dispatch(|| {
            for (token, index) in tokens.chunks_exact_mut(heads * k).zip(first..) {
                let angles = index % length * (k / 2);
                let [cos, sin] = [cos, sin].map(|all| &all[angles..][..k / 2]);
                for head in token[..n_heads * k].chunks_exact_mut(k) {
                    let (first, second) = head.split_at_mut(k / 2);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        let sin = sign * sin;
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
            }
        });
    };
    parallel::for_each(x.chunks_mut(TOKENS * heads * k).enumerate(), run);
}
