//! Where targets find their keys and values in a cache.

/// Where each target finds its keys and values in a cache `[N, C, 2 H, K]`.
#[derive(Clone, Copy, Debug)]
pub enum CacheIndex<'a> {
    /// All keys of target `i` are in the cache's row `rows[i]`: `[R]`.
    Rows(&'a [u32]),
    /// Key `t` of target `i` is in the cache's row `rows[i T + t]`, at position `t`: `[R T]`.
    Tokens(&'a [u32]),
}
