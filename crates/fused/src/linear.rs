//! `x W + b`.

use burn::tensor::{Tensor, module};

/// `x W + b` for any number of rows.
///
/// # Shapes
///
/// - x: `[M, D_in]`
/// - weight: `[D_in, D_out]`
/// - bias: `[D_out]`
/// - output: `[M, D_out]`
///
/// # Panics
///
/// If the shapes do not fit together.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_data([[1.0, 2.0]], &device);
/// let weight = Tensor::from_data([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]], &device);
/// let bias = Tensor::from_data([0.5, 0.5, 0.5], &device);
/// let y = fused::linear(x, weight, Some(bias)).into_data();
/// assert_eq!(y.iter::<f32>().collect::<Vec<_>>(), [1.5, 2.5, 11.5]);
/// ```
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let [m, d_input] = x.dims();
    let [rows, d_output] = weight.dims();
    assert!(
        d_input == rows && bias.as_ref().is_none_or(|bias| bias.dims() == [d_output]),
        "x is [{m}, {d_input}], but the weight is [{rows}, {d_output}] and the bias {:?}",
        bias.as_ref().map(Tensor::dims)
    );
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) && crate::flex::takes(&weight) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
        return Tensor::from_dispatch(match bias {
            Some(bias) => Dispatch::fused_linear(x, weight, bias.into_dispatch()),
            None => Dispatch::fused_product(x, weight),
        });
    }
    module::linear(x, weight, bias)
}

#[cfg(feature = "flex")]
pub(crate) mod flex {
    #[cfg(feature = "autodiff")]
    use rayon::prelude::*;

    use crate::buffers::Buffer;
    use crate::flex::{self, FlexTensor};
    use crate::product::{self, Matrix};

    /// `x W + b`.
    pub(crate) fn product(x: FlexTensor, weight: FlexTensor, bias: Option<&[f32]>) -> FlexTensor {
        let (x, weight) = (flex::strided(x), flex::strided(weight));
        let (x, weight) = (matrix(&x), matrix(&weight));
        let mut y = Buffer::arbitrary(x.rows * weight.columns);
        product::product(x, weight, bias, &mut y);
        flex::primitive(y, &[x.rows, weight.columns])
    }

    /// `x W`, and the sums over the rows of W.
    #[cfg(feature = "autodiff")]
    pub(crate) fn product_and_sums(x: FlexTensor, weight: FlexTensor) -> (FlexTensor, FlexTensor) {
        let (x, weight) = (flex::strided(x), flex::strided(weight));
        let (x, weight) = (matrix(&x), matrix(&weight));
        let mut y = Buffer::arbitrary(x.rows * weight.columns);
        let mut sums = Buffer::arbitrary(weight.columns);
        product::product_and_sums(x, weight, &mut y, &mut sums);
        (
            flex::primitive(y, &[x.rows, weight.columns]),
            flex::primitive(sums, &[weight.columns]),
        )
    }

    /// Sums over the rows of x, in pieces whose sums are added up, so that they do not depend on the
    /// number of threads.
    #[cfg(feature = "autodiff")]
    pub(crate) fn sum_rows(x: FlexTensor) -> FlexTensor {
        const ROWS: usize = 64;
        let x = x.to_contiguous();
        let width = x.layout().shape()[1];
        let columns = width.max(1);
        let add = |sums: &mut [f32], row: &[f32]| {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        };
        let piece = |rows: &[f32]| {
            let mut sums = vec![0.0; columns];
            rows.chunks(columns).for_each(|row| add(&mut sums, row));
            sums
        };
        let pieces = flex::slice(&x).par_chunks(ROWS * columns);
        let pieces: Vec<Vec<f32>> = pieces.map(piece).collect();
        let mut sums = Buffer::zeros(width);
        for piece in &pieces {
            add(&mut sums, piece);
        }
        flex::primitive(sums, &[width])
    }

    fn matrix(x: &FlexTensor) -> Matrix<'_> {
        let layout = x.layout();
        let [rows, columns] = layout.shape()[..] else {
            panic!("a matrix has two dimensions, not {:?}", layout.shape());
        };
        let stride =
            |dim: usize| usize::try_from(layout.strides()[dim]).expect("it is not negative");
        Matrix {
            data: &x.storage()[layout.start_offset()..],
            rows,
            columns,
            row_stride: stride(0),
            column_stride: stride(1),
        }
    }
}
