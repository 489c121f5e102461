//! A residual connection with dropout, and layer normalisation after it, in one pass.

use burn::tensor::Tensor;

/// `x + dropout(y)`.
///
/// # Shapes
///
/// - x, y: `[N, D]`
/// - output: `[N, D]`
///
/// # Panics
///
/// If the shapes differ, or the probability is not in `[0, 1)`.
pub fn residual(x: Tensor<2>, y: Tensor<2>, dropout: f64) -> Tensor<2> {
    check(&x, &y, dropout);
    #[cfg(feature = "flex")]
    if let Some(dropout) = fast_path(&x, &y, dropout) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(Dispatch::fused_residual(x, y, dropout));
    }
    x + crate::dropout(y, dropout)
}

/// `layer_norm(x + dropout(y))`; see [`layer_norm`](crate::layer_norm()).
///
/// # Shapes
///
/// - x, y: `[N, D]`
/// - gamma, beta: `[D]`
/// - output: `[N, D]`
///
/// # Panics
///
/// If the shapes do not fit together, or the probability is not in `[0, 1)`.
pub fn residual_norm(
    x: Tensor<2>,
    y: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    dropout: f64,
    epsilon: f64,
) -> Tensor<2> {
    check(&x, &y, dropout);
    let [_, width] = x.dims();
    assert!(
        gamma.dims() == [width] && beta.dims() == [width],
        "x is {:?}, but gamma is {:?} and beta {:?}",
        x.dims(),
        gamma.dims(),
        beta.dims()
    );
    #[cfg(feature = "flex")]
    if crate::flex::takes(&gamma)
        && crate::flex::takes(&beta)
        && let Some(dropout) = fast_path(&x, &y, dropout)
    {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
        let output = Dispatch::fused_residual_norm(x, y, gamma, beta, dropout, epsilon);
        return Tensor::from_dispatch(output);
    }
    #[cfg(feature = "autodiff")]
    if [&x, &y].into_iter().all(crate::explicit::takes)
        && [&gamma, &beta].into_iter().all(crate::explicit::takes)
        && x.shape().num_elements() > 0
    {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let mask = crate::dropout::draw_mask(x.dims(), dropout, &x.device());
        return Tensor::from_dispatch(Dispatch::explicit_residual_norm(
            x.into_dispatch(),
            y.into_dispatch(),
            gamma.into_dispatch(),
            beta.into_dispatch(),
            mask,
            dropout,
            epsilon,
        ));
    }
    crate::layer_norm(x + crate::dropout(y, dropout), gamma, beta, epsilon)
}

fn check(x: &Tensor<2>, y: &Tensor<2>, dropout: f64) {
    let (left, right) = (x.dims(), y.dims());
    assert!(left == right, "x is {left:?}, but y is {right:?}");
    crate::dropout::check(dropout);
}

#[cfg(feature = "flex")]
fn fast_path(x: &Tensor<2>, y: &Tensor<2>, dropout: f64) -> Option<crate::dropout::Dropout> {
    (crate::flex::takes(x) && crate::flex::takes(y))
        .then(|| crate::dropout::Dropout::draw(dropout, &x.device()))
}

#[cfg(feature = "flex")]
pub(crate) use kernel::{add_to_dropped, normalize_sum};

#[cfg(feature = "flex")]
mod kernel {
    use pulp::Arch;
    use rayon::prelude::*;

    use crate::buffers::Buffer;
    use crate::dropout::Dropout;
    use crate::layer_norm::{self, Norm};

    /// `y = x + dropout(y)`.
    pub(crate) fn add_to_dropped(y: &mut [f32], x: &[f32], dropout: Dropout) {
        let piece = layer_norm::PIECE;
        let run = |(index, (y, x)): (usize, (&mut [f32], &[f32]))| {
            add_piece(y, x, dropout, index * piece);
        };
        let pieces = y.par_chunks_mut(piece).zip(x.par_chunks(piece));
        pieces.enumerate().for_each(run);
    }

    /// `y = x + dropout(y)`, and its rows normalised.
    pub(crate) fn normalize_sum(
        y: &mut [f32],
        x: &[f32],
        dropout: Dropout,
        norm: Norm<'_>,
    ) -> Buffer {
        let mut output = Buffer::arbitrary(x.len());
        let piece = norm.piece();
        let pieces = y.par_chunks_mut(piece).zip(x.par_chunks(piece));
        let pieces = pieces.zip(output.par_chunks_mut(piece)).enumerate();
        pieces.for_each(|(index, ((y, x), output))| {
            add_piece(y, x, dropout, index * piece);
            norm.forward_piece(y, output);
        });
        output
    }

    fn add_piece(y: &mut [f32], x: &[f32], dropout: Dropout, first: usize) {
        dropout.apply(y, first);
        Arch::new().dispatch(|| {
            for (y, x) in y.iter_mut().zip(x) {
                *y += x;
            }
        });
    }
}
