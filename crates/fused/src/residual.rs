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
    #[cfg(feature = "autodiff")]
    if [&x, &y].into_iter().all(crate::explicit::takes) && x.shape().num_elements() > 0 {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let mask = crate::dropout::draw_mask(x.dims(), dropout, &x.device());
        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(Dispatch::explicit_residual(x, y, mask, dropout));
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
    check_parameters(&x, &gamma, &beta);
    #[cfg(feature = "flex")]
    if [&x, &y].into_iter().all(crate::flex::takes)
        && [&gamma, &beta].into_iter().all(crate::flex::takes)
    {
        return residual_and_norm(x, y, gamma, beta, dropout, epsilon).1;
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

/// `x + dropout(y)`, and its rows normalised; see [`layer_norm`](crate::layer_norm()). What a
/// residual connection with the norm in front hands to the next one. If the norm takes no part in a
/// loss that the sum does, gamma and beta may have gradients of zeros.
///
/// # Shapes
///
/// - x, y: `[N, D]`
/// - gamma, beta: `[D]`
/// - output: `[N, D]` both
///
/// # Panics
///
/// If the shapes do not fit together, or the probability is not in `[0, 1)`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_data([[1.0, 2.0]], &device);
/// let (gamma, beta) = (Tensor::ones([2], &device), Tensor::zeros([2], &device));
/// let (sum, norm) = fused::residual_and_norm(x.clone(), x, gamma, beta, 0.0, 0.0);
/// assert_eq!(sum.into_data().iter::<f32>().collect::<Vec<_>>(), [2.0, 4.0]);
/// assert_eq!(norm.into_data().iter::<f32>().collect::<Vec<_>>(), [-1.0, 1.0]);
/// ```
pub fn residual_and_norm(
    x: Tensor<2>,
    y: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    dropout: f64,
    epsilon: f64,
) -> (Tensor<2>, Tensor<2>) {
    check(&x, &y, dropout);
    check_parameters(&x, &gamma, &beta);
    #[cfg(feature = "flex")]
    if crate::flex::takes(&gamma)
        && crate::flex::takes(&beta)
        && let Some(dropout) = fast_path(&x, &y, dropout)
    {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
        let (sum, norm) = Dispatch::fused_residual_and_norm(x, y, gamma, beta, dropout, epsilon);
        return (Tensor::from_dispatch(sum), Tensor::from_dispatch(norm));
    }
    let sum = residual(x, y, dropout);
    (sum.clone(), crate::layer_norm(sum, gamma, beta, epsilon))
}

fn check(x: &Tensor<2>, y: &Tensor<2>, dropout: f64) {
    let (left, right) = (x.dims(), y.dims());
    assert!(left == right, "x is {left:?}, but y is {right:?}");
    crate::dropout::check(dropout);
}

fn check_parameters(x: &Tensor<2>, gamma: &Tensor<1>, beta: &Tensor<1>) {
    let [rows, width] = x.dims();
    assert!(
        gamma.dims() == [width] && beta.dims() == [width],
        "x is [{rows}, {width}], but gamma is {:?} and beta {:?}",
        gamma.dims(),
        beta.dims()
    );
}

#[cfg(feature = "flex")]
fn fast_path(x: &Tensor<2>, y: &Tensor<2>, dropout: f64) -> Option<crate::dropout::Dropout> {
    (crate::flex::takes(x) && crate::flex::takes(y))
        .then(|| crate::dropout::Dropout::draw(dropout, &x.device()))
}

#[cfg(feature = "flex")]
pub(crate) use kernel::add_to_dropped;

/// Of tensors.
#[cfg(feature = "flex")]
pub(crate) mod flex {
    #[cfg(feature = "autodiff")]
    use burn::backend::Flex;

    use super::kernel::normalize_sum;
    #[cfg(feature = "autodiff")]
    use crate::buffers::Buffer;
    use crate::dropout::Dropout;
    #[cfg(feature = "autodiff")]
    use crate::extension::Four;
    use crate::flex::{self, FlexTensor};
    use crate::layer_norm::Norm;
    #[cfg(feature = "autodiff")]
    use crate::layer_norm::Store;

    /// `x + dropout(y)`, and its rows normalised.
    pub(crate) fn forward(
        [x, mut y, gamma, beta]: [FlexTensor; 4],
        dropout: Dropout,
        epsilon: f64,
    ) -> (FlexTensor, FlexTensor) {
        let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.to_contiguous());
        let norm = Norm::of(&gamma, &beta, epsilon);
        let output = flex::with_mut(&mut y, |y| normalize_sum(y, flex::slice(&x), dropout, norm));
        (y, flex::primitive(output, x.layout().shape()))
    }

    /// The gradients of x, y, gamma and beta.
    #[cfg(feature = "autodiff")]
    pub(crate) fn backward(
        [sum, gamma, of_sum, mut of_norm]: [FlexTensor; 4],
        store: Store,
        dropout: Dropout,
        epsilon: f64,
    ) -> Four<Flex> {
        let [sum, gamma] = [sum, gamma].map(|tensor| tensor.to_contiguous());
        let norm = Norm::of(&gamma, &gamma, epsilon);
        let shape = sum.layout().shape();
        let mut dx = match store {
            Store::Added => of_sum,
            Store::Written => flex::primitive(Buffer::arbitrary(shape.num_elements()), shape),
        };
        let of_parameters = flex::with_mut(&mut of_norm, |grad| {
            flex::with_mut(&mut dx, |dx| {
                norm.backward_residual(flex::slice(&sum), grad, dx, store, dropout)
            })
        });
        let dy = match dropout.probability > 0.0 {
            true => of_norm,
            false => dx.clone(),
        };
        let [gamma, beta] = of_parameters.map(flex::vector);
        (dx, dy, gamma, beta)
    }
}

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
    pub(super) fn normalize_sum(
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
