//! The index that finds each target's keys and values in a cache.

/// The rows of a cache `[N, C, 2 H, K]` that hold each target's keys and values.
#[derive(Clone, Copy, Debug)]
pub enum CacheIndex<'a> {
    /// All keys and values of target `i` are in row `rows[i]` of the cache. The slice has `R`
    /// elements.
    Rows(&'a [u32]),
    /// The key and value `t` of target `i` are in row `rows[i T + t]` of the cache, at position
    /// `t`. The slice has `R T` elements.
    Tokens(&'a [u32]),
}
