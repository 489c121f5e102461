//! What attention takes, from flex's tensors.

use burn::backend::Flex;
use burn::backend::tensor::BoolTensor;

use super::kernel::{Attention, Heads, Mask};
use crate::dropout::Dropout;
use crate::flex::{self, FlexTensor};

/// Tensors that lie as the kernels want them.
pub(crate) struct Inputs {
    query: FlexTensor,
    /// None if they are in the same tensor.
    key_value: Option<FlexTensor>,
    mask: BoolTensor<Flex>,
    dropout: Dropout,
}

impl Inputs {
    /// Of `[B, T, 3 H, K]`.
    pub(crate) fn packed(packed: FlexTensor, mask: BoolTensor<Flex>, dropout: Dropout) -> Self {
        Self {
            query: packed.to_contiguous(),
            key_value: None,
            mask: match mask.layout().strides().iter().all(|&stride| stride >= 0) {
                true => mask,
                false => mask.to_contiguous(),
            },
            dropout,
        }
    }

    /// Of `[B, T, H, K]` and `[B, S, 2 H, K]`.
    pub(crate) fn apart(
        query: FlexTensor,
        packed: FlexTensor,
        mask: BoolTensor<Flex>,
        dropout: Dropout,
    ) -> Self {
        Self {
            key_value: Some(packed.to_contiguous()),
            ..Self::packed(query, mask, dropout)
        }
    }

    pub(crate) fn attention(&self) -> Attention<'_> {
        let (packed, parts) = match &self.key_value {
            Some(packed) => (packed, 2),
            None => (&self.query, 3),
        };
        let n_heads = packed.layout().shape()[2] / parts;
        Attention {
            query: heads(&self.query, 0),
            key: heads(packed, (parts - 2) * n_heads),
            value: heads(packed, (parts - 1) * n_heads),
            n_heads,
            mask: self.mask(),
            dropout: self.dropout,
        }
    }

    /// The output `[B, T, H K]`, and the logarithms of the rows' sums, `[B, H, T]`.
    pub(crate) fn forward(&self) -> (FlexTensor, FlexTensor) {
        let attention = self.attention();
        let [batch, t] = [0, 1].map(|axis| self.query.layout().shape()[axis]);
        let (output, log_sums) = attention.forward(batch);
        let n_heads = attention.n_heads;
        let width = n_heads * attention.query.d_head;
        (
            flex::primitive(output, &[batch, t, width]),
            flex::primitive(log_sums, &[batch, n_heads, t]),
        )
    }

    /// None if it is a single element that blocks nothing.
    fn mask(&self) -> Option<Mask<'_>> {
        let layout = self.mask.layout();
        let data = &self.mask.storage::<u8>()[layout.start_offset()..];
        if layout.num_elements() == 1 && data[0] == 0 {
            return None;
        }
        let strides = std::array::from_fn(|axis| match layout.shape()[axis] {
            1 => 0,
            _ => usize::try_from(layout.strides()[axis]).expect("it is not negative"),
        });
        Some(Mask { data, strides })
    }
}

fn heads(tensor: &FlexTensor, first: usize) -> Heads<'_> {
    let shape = tensor.layout().shape();
    Heads {
        data: flex::slice(tensor),
        length: shape[1],
        n_packed: shape[2],
        first,
        d_head: shape[3],
    }
}
