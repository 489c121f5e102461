//! The cache rows of each target's keys and values.

/// The rows of a cache `[N, C, 2 H, K]` that hold each target's keys and values.
#[derive(Clone, Copy, Debug)]
pub enum CacheIndex<'a> {
    /// All keys of target `i` are in the cache's row `rows[i]`: `[R]`.
    Rows(&'a [u32]),
    /// Key `t` of target `i` is in the cache's row `rows[i T + t]`, at position `t`: `[R T]`.
    Tokens(&'a [u32]),
}
