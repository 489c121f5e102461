//! The matmul path for many rows of `x`, and for matrices that no other path can read. It packs the
//! matrix `W` piece by piece. Packed elements are stored in *words* of 32 bits: one f32 element, or
//! two bfloat16 elements.

use std::ops::Range;

use pulp::Simd;

use super::ahead::Ahead;
use super::format::Format;
use super::part::{At, Part, ROWS};
use crate::memory::arena::CACHE_LINE;

/// Maximum number of words in each column of a packed piece of `W`. With this many words and
/// [`PACK_COLUMNS`] columns, a piece has 192 KiB. In f32, a packed piece and the next piece, which
/// is prefetched, then fit in the L2 cache of most recent processors. With fewer words, sums would
/// be stored and loaded more often.
const PACK_WORDS: usize = 256;

/// Maximum number of columns of `W` in a packed piece.
pub(super) const PACK_COLUMNS: usize = 192;

/// Maximum number of elements of `x` that are read again for each group of columns of `W`. They
/// fit in the L2 cache of most recent processors.
const SMALL_X: usize = 1 << 17;

/// A tile of `x`: `R` rows, packed or read in place.
trait Tile<const R: usize>: Copy {
    /// Checks that each row has `depth` words, which shows the compiler that no index is out of
    /// bounds.
    ///
    /// # Panics
    ///
    /// If a row has a different number of words.
    fn check(self, depth: usize);

    fn at(self, row: usize, column: usize) -> f32;
}

/// Packed rows, column after column.
#[derive(Clone, Copy)]
struct Packed<'a, const R: usize>(&'a [[f32; R]]);

impl<const R: usize> Tile<R> for Packed<'_, R> {
    #[inline(always)]
    fn check(self, depth: usize) {
        assert!(self.0.len() == depth);
    }

    #[inline(always)]
    fn at(self, row: usize, column: usize) -> f32 {
        self.0[column][row]
    }
}

/// Rows that are read in place.
#[derive(Clone, Copy)]
struct InPlace<'a, const R: usize>([&'a [f32]; R]);

impl<const R: usize> Tile<R> for InPlace<'_, R> {
    #[inline(always)]
    fn check(self, depth: usize) {
        for row in self.0 {
            assert!(row.len() == depth);
        }
    }

    #[inline(always)]
    fn at(self, row: usize, column: usize) -> f32 {
        self.0[row][column]
    }
}

/// A packed piece of `W`. A panel is a group of columns that fill `V` vectors, and is stored as
/// `[words, V]` vectors.
struct Piece<'a, S: Simd, const V: usize> {
    rows: Range<usize>,
    /// Number of words in each column.
    words: usize,
    columns: Range<usize>,
    panels: &'a [[S::f32s; V]],
    /// The piece that is packed next.
    next: Ahead,
}

impl<S: Simd, const V: usize> Piece<'_, S, V> {
    /// Adds all rows of the piece to `sums`.
    #[inline(always)]
    fn add_sums(&self, simd: S, sums: &mut [f32]) {
        let panels = self.panels.chunks_exact(self.words);
        for (panel, sums) in panels.zip(sums.chunks_mut(V * S::F32_LANES)) {
            let mut found = [simd.splat_f32s(0.0); V];
            for row in panel {
                for (found, &w) in found.iter_mut().zip(row) {
                    *found = simd.add_f32s(*found, w);
                }
            }
            for (sums, found) in sums.chunks_mut(S::F32_LANES).zip(found) {
                let before = simd.partial_load_f32s(sums);
                simd.partial_store_f32s(sums, simd.add_f32s(before, found));
            }
        }
    }
}

impl Part<'_, '_, '_> {
    /// Returns the maximum number of rows of `W` in a piece of this part, for a format with
    /// `elements` elements in a word.
    #[inline(always)]
    pub(super) fn depth(&self, elements: usize) -> usize {
        let k = self.w.rows;
        k.div_ceil(k.div_ceil(PACK_WORDS * elements))
            .next_multiple_of(elements)
    }

    /// Computes the output of the part, and the part's column sums of `W`, in tiles of `R` rows and
    /// `V` vectors. If the last tile has at most `H` rows, only its first `H` rows are computed.
    #[inline(always)]
    pub(super) fn packed<S: Simd, F: Format<S>, const R: usize, const H: usize, const V: usize>(
        mut self,
        simd: S,
        format: F,
        packed_x: &mut Vec<f32>,
        packed_w: &mut Vec<f32>,
    ) {
        const {
            assert!(
                F::ELEMENTS == 1 || R == ROWS,
                "words are packed in such tiles"
            )
        };
        let panel = V * S::F32_LANES;
        let (k, width, m) = (self.w.rows, self.y[0].len(), self.y.len());
        let in_place = match (F::ELEMENTS, self.x.column_stride) {
            (1, 1) => m / R * R,
            _ => 0,
        };
        let depth = self.depth(F::ELEMENTS);
        let words = depth / F::ELEMENTS;
        let tiles = (m - in_place).next_multiple_of(R) * words;
        // In bfloat16, words that cannot be packed directly are first stored in scratch memory,
        // which is as large as a panel. In f32, no scratch memory is needed.
        let scratch = (F::ELEMENTS - 1) * panel * words;
        packed_x.resize(tiles + scratch, 0.0);
        let (packed_x, scratch) = packed_x.split_at_mut(tiles);
        let size = words * PACK_COLUMNS.next_multiple_of(panel);
        packed_w.resize(size + CACHE_LINE, 0.0);
        // The packed piece starts at a cache line, so that no vector lies in two cache lines.
        let begin = packed_w
            .as_ptr()
            .align_offset(CACHE_LINE * size_of::<f32>());
        let packed_w = &mut packed_w[begin.min(CACHE_LINE)..][..size];
        let (deep, wide) = (k.div_ceil(depth), width.div_ceil(PACK_COLUMNS));
        // With few rows, the output of a piece's columns stays in the cache for the next piece of
        // these columns. With many rows, `x` is too large to be read again for all columns.
        let columns_first = deep > 1 && in_place >= m / R * R && m * k <= SMALL_X;
        let at = |index: usize| {
            let (i, j) = if columns_first {
                (index % deep, index / deep)
            } else {
                (index / wide, index % wide)
            };
            let (row, column) = (i * depth, j * PACK_COLUMNS);
            (
                row..k.min(row + depth),
                column..width.min(column + PACK_COLUMNS),
            )
        };
        for index in 0..deep * wide {
            let (rows, columns) = at(index);
            let words = rows.len().div_ceil(F::ELEMENTS);
            if columns_first || columns.start == 0 {
                match F::ELEMENTS {
                    1 => self.pack_x::<R>(rows.clone(), in_place, packed_x),
                    _ => self.pack_x_words(rows.clone(), packed_x, scratch),
                }
            }
            let next = if index + 1 < deep * wide {
                let (rows, columns) = at(index + 1);
                Ahead::of(&self, rows, columns)
            } else {
                Ahead::default()
            };
            match F::ELEMENTS {
                1 => self.pack_w::<S, V>(simd, rows.clone(), columns.clone(), packed_w),
                _ => self.pack_w_words(
                    rows.clone(),
                    columns.clone(),
                    words,
                    panel,
                    packed_w,
                    scratch,
                ),
            }
            let first_column = columns.start;
            let panels = S::as_simd_f32s(packed_w).0.as_chunks::<V>().0;
            let piece = Piece::<S, V> {
                rows,
                words,
                columns,
                panels,
                next,
            };
            for (column, sums) in &mut self.sums {
                if *column == first_column {
                    piece.add_sums(simd, sums);
                }
            }
            self.add_piece::<S, F, R, H, V>(simd, format, in_place, packed_x, &piece);
        }
    }

    /// Adds the product of the part's rows of `x` and a piece of `W` to the output. Each tile is
    /// multiplied by all panels before the next tile. The tile is thus read once from memory, and
    /// the piece from the L2 cache. The first `in_place` rows are read in place, and all later rows
    /// from `packed_x`.
    #[inline(always)]
    fn add_piece<S: Simd, F: Format<S>, const R: usize, const H: usize, const V: usize>(
        &mut self,
        simd: S,
        format: F,
        in_place: usize,
        packed_x: &[f32],
        piece: &Piece<'_, S, V>,
    ) {
        for row in (0..in_place).step_by(R) {
            let mut x: [&[f32]; R] = [&[]; R];
            for (i, x) in x.iter_mut().enumerate() {
                *x = &self.x_row(row + i)[piece.rows.clone()];
            }
            self.row_of_tiles::<S, F, _, R, R, V>(simd, format, row, InPlace(x), piece);
        }
        let tiles = packed_x.chunks_exact(piece.words * R);
        for (x, row) in tiles.zip((in_place..self.y.len()).step_by(R)) {
            let x = Packed(x.as_chunks::<R>().0);
            if const { H < R } && self.y.len() - row <= H {
                self.row_of_tiles::<S, F, _, R, H, V>(simd, format, row, x, piece);
            } else {
                self.row_of_tiles::<S, F, _, R, R, V>(simd, format, row, x, piece);
            }
        }
    }

    /// Adds the product of the first `H` rows of a tile of `x` and a piece of `W` to the output,
    /// from row `row` on.
    #[inline(always)]
    fn row_of_tiles<
        S: Simd,
        F: Format<S>,
        X: Tile<R>,
        const R: usize,
        const H: usize,
        const V: usize,
    >(
        &mut self,
        simd: S,
        format: F,
        row: usize,
        x: X,
        piece: &Piece<'_, S, V>,
    ) {
        const { assert!(V == 2 || V == 3, "the cases below are for these") };
        let first = piece.rows.start;
        let mut column = piece.columns.start;
        let panels = piece.columns.len().div_ceil(V * S::F32_LANES);
        let shares = self.y.len().div_ceil(R) * panels;
        for (panel, w) in piece.panels.chunks_exact(piece.words).enumerate() {
            let at = At { row, column };
            if cfg!(target_arch = "x86_64") && panel < panels {
                let share = row / R * panels + panel;
                piece.next.prefetch(self.w.data, share, shares);
            }
            let left = piece.columns.end - column;
            match (left / S::F32_LANES, left % S::F32_LANES) {
                (0, 0) => return,
                (0, _) => self.tile::<S, F, X, R, H, 1, V, false>(simd, format, first, at, x, w),
                (1, 0) => self.tile::<S, F, X, R, H, 1, V, true>(simd, format, first, at, x, w),
                (1, _) => self.tile::<S, F, X, R, H, 2, V, false>(simd, format, first, at, x, w),
                (2, 0) => self.tile::<S, F, X, R, H, 2, V, true>(simd, format, first, at, x, w),
                (2, _) if const { V == 3 } => {
                    self.tile::<S, F, X, R, H, V, V, false>(simd, format, first, at, x, w);
                }
                _ => self.tile::<S, F, X, R, H, V, V, true>(simd, format, first, at, x, w),
            }
            column = piece.columns.end.min(column + V * S::F32_LANES);
        }
    }

    /// Adds the product of the first `H` rows of a tile of `x` and the first `V` of `P` vectors of
    /// each row of a panel to the sums that `load` returns, and stores the results in the output.
    #[inline(always)]
    fn tile<
        S: Simd,
        F: Format<S>,
        X: Tile<R>,
        const R: usize,
        const H: usize,
        const V: usize,
        const P: usize,
        const WHOLE: bool,
    >(
        &mut self,
        simd: S,
        format: F,
        first: usize,
        at: At,
        x: X,
        w: &[[S::f32s; P]],
    ) {
        x.check(w.len());
        let mut sums = self.load::<S, H, V, WHOLE>(simd, first, at);
        for (i, w) in w.iter().enumerate() {
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = simd.splat_f32s(x.at(row, i));
                // `zip` would be a function call for each row in builds with `lto = "off"`.
                #[allow(clippy::needless_range_loop)]
                for v in 0..V {
                    sums[v] = format.multiply_add(simd, x, w[v], sums[v]);
                }
            }
        }
        self.store::<S, H, V, WHOLE>(simd, at, sums);
    }
}
