//! Cache rows and sources of the targets in one decoding step.
//!
//! A target that branches, as in beam search, is not copied. Its continuations read the keys and
//! values of earlier tokens from the cache rows that already hold them. The targets of one source
//! share the keys and values of the source's memory.

use std::cell::OnceCell;

use burn::tensor::{Device, Int, Tensor, TensorData};

/// The cache rows and the source of each target in one decoding step.
///
/// All layers share one index, which is built once per step.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetIndex {
    /// Cache row of each token of each target; `None` if all tokens of target `i` are in row `i`.
    pub tokens: Option<TokenRows>,
    /// Source of each target; `None` if target `i` belongs to source `i`.
    pub sources: Option<SourceRows>,
}

/// The cache row of each token of each target.
#[derive(Clone, Debug)]
pub(crate) struct TokenRows {
    /// Cache row of each token of `R` targets, flattened to `[R * T]`: the tokens of target 0 come
    /// first, then the tokens of target 1, and so on.
    pub rows: Vec<u32>,
    /// Number of tokens of each target, `T`.
    length: usize,
    /// Index of each token in a cache that is flattened from `N` rows of `C` positions to
    /// `[N * C]`; computed at first use.
    indices: OnceCell<Tensor<1, Int>>,
}

impl TokenRows {
    /// Creates the index of `R` targets with `length` (`T`) tokens each. `rows` holds the cache row
    /// of each token, flattened to `[R * T]`.
    pub fn new(rows: Vec<u32>, length: usize) -> Self {
        Self {
            rows,
            length,
            indices: OnceCell::new(),
        }
    }

    /// Copies the keys and values of each target out of a cache.
    ///
    /// The cache is `[N, C, 2 G, K]`, the output `[R, T, 2 G, K]`.
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
    /// Source of each target, `[R]`, as an index in `0..n_sources`.
    pub rows: Vec<u32>,
    n_sources: usize,
    /// Targets grouped by source; computed at first use.
    groups: OnceCell<TargetGroups>,
}

/// Targets grouped by source, in a matrix `[B, width]` with a row per source.
///
/// A row with fewer than `width` targets is filled up with target 0, whose results in these cells
/// are not used.
#[derive(Clone, Debug)]
pub(crate) struct TargetGroups {
    /// Maximum number of targets per source.
    pub width: usize,
    /// Two tensors: the target in each cell, flattened to `[B * width]`, and the cell of each
    /// target, `[R]`. `None` if target `i` is in cell `i` for every `i`.
    pub order: Option<(Tensor<1, Int>, Tensor<1, Int>)>,
}

impl SourceRows {
    /// Creates the index from the source of each target, `[R]`, as an index in `0..n_sources`.
    ///
    /// # Panics
    ///
    /// If a source does not exist.
    pub fn new(rows: Vec<u32>, n_sources: usize) -> Self {
        assert!(
            rows.iter().all(|&source| (source as usize) < n_sources),
            "the targets belong to the sources {rows:?}, but the memory has {n_sources}"
        );
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

    /// Returns the targets grouped by source.
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

pub(crate) fn index_tensor(
    indices: impl IntoIterator<Item = usize>,
    device: &Device,
) -> Tensor<1, Int> {
    let indices: Vec<i64> = indices.into_iter().map(|index| index as i64).collect();
    let length = indices.len();
    Tensor::from_data(TensorData::new(indices, [length]), device)
}
