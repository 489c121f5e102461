//! Indices of the keys and values that belong to the targets of one decoding step.
//!
//! A target that branches, as in beam search, is not copied: its continuations read the keys and
//! values of earlier tokens in the cache rows where they were written. The targets of one source share
//! the keys and values of its memory.

use std::cell::OnceCell;

use burn::tensor::{Device, Int, Tensor, TensorData};

/// The rows of caches and of the memory that belong to the targets of one step. It is built once
/// per step for all layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetIndex {
    /// Cache rows of each target's tokens; `None` if all tokens of target `i` are in row `i`.
    pub tokens: Option<TokenRows>,
    /// The source of each target; `None` if target `i` has source `i`.
    pub sources: Option<SourceRows>,
}

/// The cache row of each token of each target.
#[derive(Clone, Debug)]
pub(crate) struct TokenRows {
    /// `[R T]`, target after target.
    pub rows: Vec<u32>,
    /// Tokens of a target, `T`.
    length: usize,
    /// The same rows as indices into `[N C]`, computed when a layer needs them.
    indices: OnceCell<Tensor<1, Int>>,
}

impl TokenRows {
    /// Takes the rows `[R T]` of targets of `length` tokens.
    pub fn new(rows: Vec<u32>, length: usize) -> Self {
        Self {
            rows,
            length,
            indices: OnceCell::new(),
        }
    }

    /// Copies the keys and values of each target out of a cache: `[N, C, 2 H, K]` to `[R, T, 2 H, K]`.
    pub fn gather(&self, cache: Tensor<4>) -> Tensor<4> {
        let [n, capacity, heads, d_head] = cache.dims();
        let indices = self.indices.get_or_init(|| {
            let position = (0..self.length).cycle();
            let rows = self.rows.iter().zip(position);
            let indices = rows.map(|(&row, position)| row as usize * capacity + position);
            index_tensor(indices, &cache.device())
        });
        cache
            .reshape([n * capacity, heads * d_head])
            .select(0, indices.clone())
            .reshape([self.rows.len() / self.length, self.length, heads, d_head])
    }
}

/// The source of each target.
#[derive(Clone, Debug)]
pub(crate) struct SourceRows {
    /// `[R]`
    pub rows: Vec<u32>,
    n_sources: usize,
    /// Targets by source, computed when a layer needs them.
    groups: OnceCell<TargetGroups>,
}

/// The targets of each source side by side, `[B, width]`. A source with fewer targets fills its row
/// with an arbitrary target.
#[derive(Clone, Debug)]
pub(crate) struct TargetGroups {
    /// Maximum number of targets of a source.
    pub width: usize,
    /// The target in each cell, `[B width]`, and the cell of each target, `[R]`; `None` if the targets
    /// are in this order already.
    pub order: Option<(Tensor<1, Int>, Tensor<1, Int>)>,
}

impl SourceRows {
    /// Takes the source of each target, `[R]`, below `n_sources`.
    pub fn new(rows: Vec<u32>, n_sources: usize) -> Self {
        Self {
            rows,
            n_sources,
            groups: OnceCell::new(),
        }
    }

    /// Returns the source of each target as a tensor, `[R]`.
    pub fn indices(&self, device: &Device) -> Tensor<1, Int> {
        index_tensor(self.rows.iter().map(|&source| source as usize), device)
    }

    /// Returns the targets of each source.
    pub fn groups(&self, device: &Device) -> &TargetGroups {
        self.groups.get_or_init(|| {
            let n_sources = self.n_sources;
            let mut targets = vec![Vec::new(); n_sources];
            for (target, &source) in self.rows.iter().enumerate() {
                targets[source as usize].push(target);
            }
            let width = targets.iter().map(Vec::len).max().unwrap_or(0);
            let full = (0..n_sources as u32).flat_map(|source| std::iter::repeat_n(source, width));
            let is_full = full.eq(self.rows.iter().copied());
            let order = (!is_full).then(|| {
                let mut cell_of = vec![0; self.rows.len()];
                let mut target_in = vec![0; n_sources * width];
                for (source, targets) in targets.iter().enumerate() {
                    for (beam, &target) in targets.iter().enumerate() {
                        cell_of[target] = source * width + beam;
                        target_in[source * width + beam] = target;
                    }
                }
                (
                    index_tensor(target_in, device),
                    index_tensor(cell_of, device),
                )
            });
            TargetGroups { width, order }
        })
    }
}

fn index_tensor(indices: impl IntoIterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let indices: Vec<i64> = indices.into_iter().map(|index| index as i64).collect();
    let length = indices.len();
    Tensor::from_data(TensorData::new(indices, [length]), device)
}
