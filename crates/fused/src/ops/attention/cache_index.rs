//! The rows and positions of each target's keys and values in a cache.

/// The rows of a cache that hold the keys and values of each target.
///
/// A target is a sequence that is being decoded. There are `R` targets with `T` keys each. The
/// cache is `[N, C, 2 * G, K]`: it has `N` rows of `C` positions each. A position holds `G` heads
/// of keys and then `G` heads of values, each of `K` features.
#[derive(Clone, Copy, Debug)]
pub enum CacheIndex<'a> {
    /// All keys and values of target `i` are in row `rows[i]` of the cache. The slice has `R`
    /// elements.
    Rows(&'a [u32]),
    /// The key and the value at position `t` of target `i` are in row `rows[i * T + t]` of the
    /// cache, at position `t`. The slice has `R * T` elements.
    Tokens(&'a [u32]),
}
