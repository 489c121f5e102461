//! The part of a matmul that one thread computes.

use std::cell::Cell;
use std::ops::Range;

use super::group::{Group, PANEL};
use super::matrix::Int8Matrix;
use super::rows::Rows;

thread_local! {
    /// Memory for a packed panel, kept between calls.
    static GROUPS: Cell<Vec<Group>> = const { Cell::new(Vec::new()) };
}

/// Aligns the stack, too, where a kernel keeps the vectors for which it has no registers: otherwise,
/// they may lie in two cache lines, which takes AVX2's kernel a third of its speed.
#[repr(align(64))]
struct Aligned<T>(T);

/// The rows and columns of the output that one thread computes.
pub(super) struct Part<'a> {
    pub rows: &'a Rows,
    pub w: &'a Int8Matrix<'a>,
    pub bias: Option<&'a [f32]>,
    pub first_row: usize,
    pub first_column: usize,
    pub y: Vec<&'a mut [f32]>,
}

impl Part<'_> {
    /// Computes the part. `dots` is a kernel that multiplies at most `N` rows by a block, and writes
    /// as many rows of sums.
    ///
    /// The function is inlined into each kernel's function, so that it is compiled with the
    /// instruction set of the kernel.
    #[inline(always)]
    pub fn run<const N: usize>(
        mut self,
        dots: impl Fn(&[&[[i8; 4]]], &[Group], &mut [[i32; PANEL]; N]),
    ) {
        let n_groups = self.w.block.div_ceil(4);
        let mut groups = GROUPS.take();
        groups.resize(self.w.n_blocks() * n_groups, Group::EMPTY);
        for begin in (0..self.y[0].len()).step_by(PANEL) {
            self.w.pack(self.columns(begin), &mut groups);
            self.panel(begin, &groups, &dots);
        }
        GROUPS.set(groups);
    }

    /// Multiplies all rows by a packed panel.
    #[inline(always)]
    fn panel<const N: usize>(
        &mut self,
        begin: usize,
        groups: &[Group],
        dots: impl Fn(&[&[[i8; 4]]], &[Group], &mut [[i32; PANEL]; N]),
    ) {
        let columns = self.columns(begin);
        let mut start = [0.0; PANEL];
        if let Some(bias) = self.bias {
            start[..columns.len()].copy_from_slice(&bias[columns.clone()]);
        }
        let mut sums = Aligned([[0; PANEL]; N]);
        for (index, y) in self.y.chunks_mut(N).enumerate() {
            let row = self.first_row + index * N;
            let mut found = [start; N];
            let blocks = groups.chunks_exact(self.w.block.div_ceil(4));
            for (block, w) in blocks.enumerate() {
                let mut x: [&[[i8; 4]]; N] = [&[]; N];
                for (i, x) in x[..y.len()].iter_mut().enumerate() {
                    *x = self.rows.words(row + i, block);
                }
                dots(&x[..y.len()], w, &mut sums.0);
                let scales = self.w.scales(block, columns.clone());
                for (i, found) in found[..y.len()].iter_mut().enumerate() {
                    let (scale, offset) = self.rows.scale(row + i, block);
                    for ((found, sum), w) in found.iter_mut().zip(sums.0[i]).zip(scales) {
                        *found += (sum - offset) as f32 * (scale * w);
                    }
                }
            }
            for (y, found) in y.iter_mut().zip(found) {
                y[begin..][..columns.len()].copy_from_slice(&found[..columns.len()]);
            }
        }
    }

    /// Returns the columns of `W` in the panel that begins at column `begin` of the part.
    fn columns(&self, begin: usize) -> Range<usize> {
        let first = self.first_column + begin;
        first..first + PANEL.min(self.y[0].len() - begin)
    }
}
