//! The index that finds each target's keys and values in a cache.

/// The rows of a cache `[N, C, 2 H, K]` that hold the keys and values of each target. There are `R`
/// targets with `T` keys each; [`attention_step`](crate::attention_step()) describes the sizes.
#[derive(Clone, Copy, Debug)]
pub enum CacheIndex<'a> {
    /// All keys and values of target `i` are in row `rows[i]` of the cache. The slice has `R`
    /// elements.
    Rows(&'a [u32]),
    /// The key and the value at position `t` of target `i` are in row `rows[i T + t]` of the cache,
    /// at the same position. The slice has `R T` elements.
    Tokens(&'a [u32]),
}
