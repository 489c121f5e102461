//! Slices of a position table, and tables of distances.

use burn::tensor::{DType, Tensor};

pub(super) const NO_TOKENS: &str = "there are no tokens: a sequence needs at least one position";

/// Returns a table in floating-point numbers, also if Burn's quantiser has quantised it.
pub(super) fn floats(table: Tensor<2>) -> Tensor<2> {
    match table.dtype() {
        DType::QFloat(_) => table.dequantize(),
        _ => table,
    }
}

/// Returns `of(query, key)` for `length` queries, which follow `past` tokens, and all keys up to the
/// last query, in row-major order. `of` must depend on the distance between query and key alone.
pub(super) fn of_distances<T: Clone>(
    past: usize,
    length: usize,
    of: impl Fn(usize, usize) -> T,
) -> Vec<T> {
    let total = past + length;
    // The rows of later queries begin earlier in these values.
    let last = total.saturating_sub(1);
    let values: Vec<T> = (0..total + last).map(|key| of(last, key)).collect();
    let rows = (past..total).map(|query| &values[last - query..][..total]);
    rows.flatten().cloned().collect()
}

/// Returns rows `offset..offset + length` of a position table.
///
/// # Panics
///
/// If `offset + length` exceeds the number of rows, or `length` is 0.
pub(super) fn rows(table: Tensor<2>, offset: usize, length: usize) -> Tensor<2> {
    let [max_len, _] = table.dims();
    assert!(
        offset + length <= max_len,
        "positions {offset}..{} exceed max_len ({max_len}): build the model with a larger max_len",
        offset + length
    );
    assert!(length > 0, "{NO_TOKENS}");
    table.narrow(0, offset, length)
}
