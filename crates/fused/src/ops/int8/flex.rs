//! Quantised matrices on the backend flex.

use burn::backend::tensor::QuantizedTensor;
use burn::backend::{BackendTensor, DispatchTensorKind, Flex};
use burn::tensor::quantization::QuantValue;
use burn::tensor::{DType, Int, Tensor};

use crate::backend::flex;
use crate::fast_paths::has_fast_paths;
use crate::memory::buffer::Buffer;
use crate::profile::Timer;
use crate::simd::int8::{Int8Matrix, MAX_BLOCK, matmul};

/// A quantised tensor that the fast paths accept.
pub(crate) struct Matrix {
    tensor: QuantizedTensor<Flex>,
    /// The axis along which the elements of a block lie, 0 or 1. Matmuls sum over this axis.
    axis: usize,
    /// Number of elements in a block.
    block: usize,
    /// Whether all elements of the matrix share a single scale.
    is_uniform: bool,
}

impl Matrix {
    /// Returns the quantised tensor inside `tensor`, for matmuls that sum over `axis`. Returns
    /// `None` if the fast paths are off or do not accept the tensor.
    pub fn of(tensor: &Tensor<2>, axis: usize) -> Option<Self> {
        let DType::QFloat(scheme) = tensor.dtype() else {
            return None;
        };
        let is_8_bit = matches!(scheme.value, QuantValue::Q8S | QuantValue::Q8F);
        if !has_fast_paths() || !is_8_bit {
            return None;
        }
        let DispatchTensorKind::Flex(BackendTensor::Quantized(quantized)) =
            tensor.clone().into_dispatch().kind
        else {
            return None;
        };
        let size = tensor.dims()[axis];
        let block = match scheme.block_size() {
            None => (1..=MAX_BLOCK)
                .rev()
                .find(|block| size.is_multiple_of(*block))?,
            Some(block) if scheme.num_levels() == 1 => {
                let sizes = block.to_dim_vec(2);
                (sizes[1 - axis] == 1).then(|| usize::from(sizes[axis]))?
            }
            Some(_) => return None,
        };
        let is_strided = quantized.tensor().layout().strides().iter().all(|&s| s > 0);
        (is_strided && size.is_multiple_of(block)).then_some(Self {
            tensor: quantized,
            axis,
            block,
            is_uniform: scheme.block_size().is_none(),
        })
    }

    /// Returns a view of the matrix whose rows are numbered along `axis`. If `axis` is 1, the view
    /// is the transposed matrix.
    fn matrix(&self) -> Int8Matrix<'_> {
        let layout = self.tensor.tensor().layout();
        let by_axis = |of: [usize; 2]| [of[self.axis], of[1 - self.axis]];
        let stride = |dim: usize| layout.strides()[dim].unsigned_abs();
        let [rows, columns] = by_axis([layout.shape()[0], layout.shape()[1]]);
        let scale_strides = match (self.is_uniform, self.axis) {
            (true, _) => [0, 0],
            (false, 0) => [columns, 1],
            (false, _) => [1, rows / self.block],
        };
        Int8Matrix {
            data: &self.tensor.tensor().storage()[layout.start_offset()..],
            rows,
            columns,
            strides: by_axis([stride(0), stride(1)]),
            scales: self.tensor.scales(),
            scale_strides,
            block: self.block,
        }
    }

    /// Returns `x W + b`, where `W` is the view that [`matrix`](Self::matrix) returns. Returns
    /// `None` if the fast paths do not accept `x` or the bias.
    pub fn linear(&self, x: &Tensor<2>, bias: Option<&Tensor<1>>) -> Option<Tensor<2>> {
        let (x, bias) = (flex::float(x)?, bias.map(flex::float));
        let _timer = Timer::of("linear");
        let bias = match bias {
            Some(bias) => Some(bias?.to_contiguous()),
            None => None,
        };
        let w = self.matrix();
        let m = x.layout().shape()[0];
        let x = x.to_contiguous();
        let mut y = Buffer::arbitrary(m * w.columns);
        matmul(flex::slice(&x), &w, bias.as_ref().map(flex::slice), &mut y);
        Some(flex::tensor(y, [m, w.columns]))
    }

    /// Returns the embeddings `[B, T, D]` of token ids `[B, T]`, for a table `[V, D]`.
    ///
    /// # Panics
    ///
    /// If an id is not in `0..V`.
    pub fn rows(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let _timer = Timer::of("embedding");
        let table = self.matrix();
        let [batch, length] = ids.dims();
        let mut y = Buffer::arbitrary(batch * length * table.rows);
        let ids = ids.into_data();
        for (y, id) in y.chunks_mut(table.rows.max(1)).zip(ids.iter::<i64>()) {
            let known = usize::try_from(id).ok().filter(|id| *id < table.columns);
            let id = known.unwrap_or_else(|| {
                panic!("token id {id} is not in a vocabulary of {}", table.columns)
            });
            for (i, y) in y.iter_mut().enumerate() {
                let w = table.data[i * table.strides[0] + id * table.strides[1]];
                let [of_block, of_column] = table.scale_strides;
                *y = f32::from(w) * table.scales[i / self.block * of_block + id * of_column];
            }
        }
        flex::tensor(y, [batch, length, table.rows])
    }
}
