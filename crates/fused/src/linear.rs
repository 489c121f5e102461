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
    if let Some(y) = on_flex(&x, &weight, bias.as_ref()) {
        return y;
    }
    module::linear(x, weight, bias)
}

/// None where the arguments are not for this path: another backend or precision, or a gradient to
/// come.
#[cfg(feature = "flex")]
fn on_flex(x: &Tensor<2>, weight: &Tensor<2>, bias: Option<&Tensor<1>>) -> Option<Tensor<2>> {
    use crate::flex::{float, tensor};
    use crate::product::{Matrix, product};

    let weight_tensor = float(weight)?;
    let layout = weight_tensor.layout();
    let [row_stride, column_stride] = *layout.strides() else {
        return None;
    };
    if row_stride == 0 || column_stride == 0 {
        return None;
    }
    let [m, _] = x.dims();
    let [rows, columns] = weight.dims();
    let matrix = Matrix {
        data: &weight_tensor.storage()[layout.start_offset()..],
        rows,
        columns,
        row_stride: row_stride.try_into().ok()?,
        column_stride: column_stride.try_into().ok()?,
    };
    let x = float(x)?.to_contiguous();
    let bias = match bias {
        Some(bias) => Some(float(bias)?.to_contiguous()),
        None => None,
    };
    let bias = bias
        .as_ref()
        .map(|bias| bias.as_slice().expect("it is contiguous"));
    let x = x.as_slice().expect("it is contiguous");
    let y = product(m, x, matrix, bias);
    Some(tensor(y, [m, columns]))
}
