//! Rows of `x`, quantised block by block.

use crate::parallel;
use crate::simd::level::arch;

/// Rows of 8-bit integers. Each block of a row has a scale.
#[derive(Default)]
pub(super) struct Rows {
    /// Four elements are one word. A block begins with a new word, and the last word of a block is
    /// filled up with zeros.
    words: Vec<[i8; 4]>,
    /// For each block of each row, the scale, and 128 times the sum of the block's integers.
    /// Kernels add 128 to each element of `W`, so a dot product is too large by the second number.
    scales: Vec<(f32, i32)>,
    words_per_block: usize,
    n_blocks: usize,
}

/// The words and scales of some blocks, and the elements of `x` that are quantised into them.
type Piece<'a> = ((&'a mut [[i8; 4]], &'a mut [(f32, i32)]), &'a [f32]);

impl Rows {
    pub const fn new() -> Self {
        Self {
            words: Vec::new(),
            scales: Vec::new(),
            words_per_block: 0,
            n_blocks: 0,
        }
    }

    /// Quantises the rows of `x`, which have `k` elements each, in blocks of `block` elements.
    pub fn quantise(&mut self, x: &[f32], k: usize, block: usize, is_large: bool) {
        let (words_per_block, n_blocks) = (block.div_ceil(4), k / block);
        (self.words_per_block, self.n_blocks) = (words_per_block, n_blocks);
        let n = x.len() / block;
        self.words.resize(n * words_per_block, [0; 4]);
        self.scales.resize(n, (0.0, 0));
        // On several threads, a piece has at most 16 rows, which is enough work for a task.
        let piece = if is_large { n_blocks * 16 } else { n.max(1) };
        let pieces = self
            .words
            .chunks_mut(piece * words_per_block)
            .zip(self.scales.chunks_mut(piece))
            .zip(x.chunks(piece * block));
        let run = |((words, scales), x): Piece<'_>| {
            arch().dispatch(|| quantise(x, block, words, scales));
        };
        parallel::for_each(pieces, run);
    }

    /// Returns the words of one block of a row.
    #[inline(always)]
    pub fn words(&self, row: usize, block: usize) -> &[[i8; 4]] {
        let begin = (row * self.n_blocks + block) * self.words_per_block;
        &self.words[begin..][..self.words_per_block]
    }

    /// Returns the scale of one block of a row, and 128 times the sum of the block's integers.
    #[inline(always)]
    pub fn scale(&self, row: usize, block: usize) -> (f32, i32) {
        self.scales[row * self.n_blocks + block]
    }
}

/// The spacing of floats near this number is 1, so adding it rounds a small number to an integer.
const ROUND: f32 = 1.5 * (1 << 23) as f32;

/// Quantises blocks of `block` elements each.
#[inline(always)]
fn quantise(x: &[f32], block: usize, words: &mut [[i8; 4]], scales: &mut [(f32, i32)]) {
    let words = words.chunks_exact_mut(block.div_ceil(4));
    for ((x, words), scale) in x.chunks_exact(block).zip(words).zip(scales) {
        // As integers, the bits of positive floats have the same order as the floats. NaN has the
        // largest bits.
        let largest = x.iter().fold(0, |m, x| m.max(x.abs().to_bits()));
        let largest = f32::from_bits(largest);
        let inverse = 127.0 / largest;
        if !largest.is_finite() || !inverse.is_finite() {
            // If an element is not finite, the scale is NaN. If the largest element is 0 or so
            // small that `inverse` overflows, the whole block becomes zeros.
            words.fill([0; 4]);
            *scale = (if largest.is_finite() { 0.0 } else { f32::NAN }, 0);
            continue;
        }
        let bytes = words.as_flattened_mut();
        let mut sum = 0;
        for (byte, &x) in bytes.iter_mut().zip(x) {
            // Adding `ROUND` rounds the number to an integer, which is then in the lowest bits.
            let rounded = (x * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
            *byte = rounded as i8;
            sum += rounded;
        }
        bytes[block..].fill(0);
        *scale = (largest / 127.0, 128 * sum);
    }
}
