//! Residual connections, computed on slices.

use crate::memory::buffer::Buffer;
use crate::ops::dropout::kernel::Dropout;
#[cfg(feature = "autodiff")]
use crate::ops::layer_norm::kernel::Store;
use crate::ops::layer_norm::kernel::{Norm, PIECE};
use crate::parallel;
use crate::simd::level::arch;

/// Sets `y = x + dropout(y)`.
pub(super) fn add_to_dropped(y: &mut [f32], x: &[f32], dropout: Dropout) {
    let run = |(index, (y, x)): (usize, (&mut [f32], &[f32]))| {
        add_piece(y, x, dropout, index * PIECE);
    };
    let pieces = y.chunks_mut(PIECE).zip(x.chunks(PIECE));
    parallel::for_each(pieces.enumerate(), run);
}

/// Sets `y = x + dropout(y)`, and returns the layer norm of the new `y`.
pub(super) fn normalize_sum(y: &mut [f32], x: &[f32], dropout: Dropout, norm: Norm<'_>) -> Buffer {
    let mut output = Buffer::arbitrary(x.len());
    let piece = norm.piece();
    let pieces = y.chunks_mut(piece).zip(x.chunks(piece));
    let pieces = pieces.zip(output.chunks_mut(piece)).enumerate();
    parallel::for_each(pieces, |(index, ((y, x), output))| {
        add_piece(y, x, dropout, index * piece);
        norm.forward_piece(y, output);
    });
    output
}

fn add_piece(y: &mut [f32], x: &[f32], dropout: Dropout, first: usize) {
    dropout.apply(y, first);
    arch().dispatch(|| {
        for (y, x) in y.iter_mut().zip(x) {
            *y += x;
        }
    });
}

/// Stores the gradient of `x` in `dx`, or adds it to `dx`, as `store` says. Returns the gradients
/// of gamma and beta. `grad` is the gradient of the layer norm of `sum`. With dropout, the function
/// then replaces `grad` by the gradient of `y`, which is `dx` after dropout with the mask of the
/// forward pass. Without dropout, the gradient of `y` equals `dx`, and `grad` is not changed.
#[cfg(feature = "autodiff")]
pub(super) fn backward(
    norm: Norm<'_>,
    sum: &[f32],
    grad: &mut [f32],
    dx: &mut [f32],
    store: Store,
    dropout: Dropout,
) -> [Buffer; 2] {
    let piece = norm.piece();
    let pieces = dx.chunks_mut(piece).zip(sum.chunks(piece));
    let pieces = pieces.zip(grad.chunks_mut(piece)).enumerate();
    let parameters = parallel::map(pieces, |(index, ((dx, sum), grad))| {
        let parameters = norm.backward_piece(sum, grad, dx, store);
        if dropout.probability > 0.0 {
            grad.copy_from_slice(dx);
            dropout.apply(grad, index * piece);
        }
        parameters
    });
    norm.sum_pieces(parameters)
}
