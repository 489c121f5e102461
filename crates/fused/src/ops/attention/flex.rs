//! Attention on tensors of flex.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Bool, Tensor};

use super::cache_index::CacheIndex;
#[cfg(feature = "autodiff")]
use super::kernel::backward::Backward;
use super::kernel::heads::{Attention, Heads, MaskBytes};
use super::kernel::step::CachedAttention;
use super::mask::KeyMask;
use super::terms::ScoreTerms;
use crate::backend::flex::{self, FlexTensor};
use crate::ops::dropout::flex::draw;
use crate::ops::dropout::kernel::Dropout;
use crate::profile::Timer;

/// The operations that Burn dispatches to tensors of flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait AttentionOps: Backend {
    /// Returns the attention of a sequence to itself, `[B, T, H * K]`, from packed queries, keys
    /// and values, `[B, T, 3 * H, K]`.
    fn fused_self_attention(
        packed: FloatTensor<Self>,
        #[extension_type] mask: KeyMask<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// Returns the attention `[B, T, H * K]` of queries `[B, T, H, K]` to packed keys and values
    /// `[B, S, 2 * H, K]`.
    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        #[extension_type] mask: KeyMask<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self>;
}

/// The fast path of self-attention. Returns `None` if the mask does not have one byte per element,
/// or for other terms with autodiff.
pub(super) fn self_attention(
    packed: Tensor<4>,
    terms: ScoreTerms<'_>,
    dropout: f64,
) -> Option<Tensor<3>> {
    let mask = terms.mask;
    if !has_bytes(mask) {
        return None;
    }
    let dropout = draw(dropout, &packed.device());
    if !terms.is_default() {
        let packed = flex::float(&packed)?;
        return Inputs::of_self(packed, own_mask(mask)?, dropout).with(terms);
    }
    let packed = packed.into_dispatch();
    let y = Dispatch::fused_self_attention(packed, KeyMask::of(mask), dropout);
    Some(Tensor::from_dispatch(y))
}

/// The fast path of cross-attention. Returns `None` if the mask does not have one byte per element,
/// or for other terms with autodiff.
pub(super) fn cross_attention(
    query: Tensor<4>,
    packed: Tensor<4>,
    terms: ScoreTerms<'_>,
    dropout: f64,
) -> Option<Tensor<3>> {
    let mask = terms.mask;
    if !has_bytes(mask) {
        return None;
    }
    let dropout = draw(dropout, &query.device());
    if !terms.is_default() {
        let (query, packed) = (flex::float(&query)?, flex::float(&packed)?);
        return Inputs::of_cross(query, packed, own_mask(mask)?, dropout).with(terms);
    }
    let (query, packed) = (query.into_dispatch(), packed.into_dispatch());
    let y = Dispatch::fused_cross_attention(query, packed, KeyMask::of(mask), dropout);
    Some(Tensor::from_dispatch(y))
}

/// Returns a mask without autodiff.
fn own_mask(mask: Option<&Tensor<4, Bool>>) -> Option<KeyMask<Flex>> {
    Some(match mask {
        Some(mask) => KeyMask::Blocked(flex::bool(mask)?),
        None => KeyMask::None,
    })
}

fn has_bytes(mask: Option<&Tensor<4, Bool>>) -> bool {
    mask.is_none_or(|mask| flex::bool(mask).is_some())
}

/// The fast path of attention with one query per target. It has no backward pass, so it is a plain
/// function and not a method of a trait that Burn dispatches.
///
/// Returns `None` if fast paths are off, if `query` or `packed` is not f32 on flex without
/// autodiff, or if the strides of `query` are not supported. Also returns `None` if the mask does
/// not have the shape `[N, 1, 1, T]` and one byte per element.
pub(super) fn attention_step(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    index: CacheIndex<'_>,
    length: usize,
    terms: ScoreTerms<'_>,
) -> Option<Tensor<3>> {
    let mask = terms.mask;
    let bias = match terms.bias {
        Some(bias) => Some(flex::float(bias)?.to_contiguous()),
        None => None,
    };
    let [rows, _, n_heads, d_head] = query.dims();
    let [n, capacity, ..] = packed.dims();
    let (query, packed) = (flex::float(query)?, flex::float(packed)?.to_contiguous());
    let [query_stride, _, head_stride, 1] = *query.layout().strides() else {
        return None;
    };
    if head_stride != d_head as isize {
        return None;
    }
    let mask = match mask {
        Some(mask) => {
            if mask.dims() != [n, 1, 1, length] {
                return None;
            }
            Some(flex::bool(mask)?.to_contiguous())
        }
        None => None,
    };
    let attention = CachedAttention {
        query: &query.storage()[query.layout().start_offset()..],
        query_stride: query_stride as usize,
        packed: flex::slice(&packed),
        capacity,
        index,
        length,
        mask: mask.as_ref().map(|mask| {
            let begin = mask.layout().start_offset();
            &mask.storage::<u8>()[begin..begin + n * length]
        }),
        bias: bias.as_ref().map(flex::slice),
        scale: terms.scale(d_head),
        n_heads,
        d_head,
    };
    let output = attention.forward(rows);
    Some(flex::tensor(output, [rows, 1, n_heads * d_head]))
}

impl AttentionOps for Flex {
    fn fused_self_attention(
        packed: FlexTensor,
        mask: KeyMask<Self>,
        dropout: Dropout,
    ) -> FlexTensor {
        Inputs::of_self(packed, mask, dropout).forward().0
    }

    fn fused_cross_attention(
        query: FlexTensor,
        packed: FlexTensor,
        mask: KeyMask<Self>,
        dropout: Dropout,
    ) -> FlexTensor {
        Inputs::of_cross(query, packed, mask, dropout).forward().0
    }
}

/// The inputs of attention. All tensors except the mask are contiguous.
pub(super) struct Inputs {
    /// Queries, packed with keys and values if `key_value` is `None`.
    query: FlexTensor,
    /// Packed keys and values, or `None` if they are packed with the queries.
    key_value: Option<FlexTensor>,
    mask: KeyMask<Flex>,
    dropout: Dropout,
    /// Numbers that are added to the scores, `[1, H, T, S]`; `None` for none.
    bias: Option<FlexTensor>,
    scale: f32,
}

impl Inputs {
    /// Returns the inputs of self-attention, from packed queries, keys and values,
    /// `[B, T, 3 * H, K]`.
    pub(super) fn of_self(packed: FlexTensor, mask: KeyMask<Flex>, dropout: Dropout) -> Self {
        let d_head = packed.layout().shape()[3];
        Self {
            query: packed.to_contiguous(),
            key_value: None,
            bias: None,
            scale: ScoreTerms::default().scale(d_head),
            mask: match mask {
                KeyMask::Blocked(mask) if mask.layout().strides().iter().any(|&s| s < 0) => {
                    KeyMask::Blocked(mask.to_contiguous())
                }
                mask => mask,
            },
            dropout,
        }
    }

    /// Returns the inputs of cross-attention, from queries, `[B, T, H, K]`, and packed keys and
    /// values, `[B, S, 2 * H, K]`.
    pub(super) fn of_cross(
        query: FlexTensor,
        packed: FlexTensor,
        mask: KeyMask<Flex>,
        dropout: Dropout,
    ) -> Self {
        Self {
            key_value: Some(packed.to_contiguous()),
            ..Self::of_self(query, mask, dropout)
        }
    }

    fn attention(&self) -> Attention<'_> {
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
            bias: self.bias.as_ref().map(flex::slice),
            scale: self.scale,
        }
    }

    /// Returns the output with other terms in the scores, `[B, T, H * K]`; `None` if the bias is not
    /// f32 on flex without autodiff.
    fn with(mut self, terms: ScoreTerms<'_>) -> Option<Tensor<3>> {
        let d_head = self.query.layout().shape()[3];
        self.scale = terms.scale(d_head);
        if let Some(bias) = terms.bias {
            self.bias = Some(flex::float(bias)?.to_contiguous());
        }
        let timer = Timer::of("attention");
        let (output, _) = self.attention().forward(self.query.layout().shape()[0]);
        drop(timer);
        let [batch, t] = [0, 1].map(|axis| self.query.layout().shape()[axis]);
        let width = output.len() / (batch * t).max(1);
        Some(flex::tensor(output, [batch, t, width]))
    }

    /// Returns the output, `[B, T, H * K]`, and the log-sum-exp of each row of scores, `[B, H, T]`.
    pub(super) fn forward(&self) -> (FlexTensor, FlexTensor) {
        let _timer = Timer::of("attention");
        let attention = self.attention();
        let [batch, t] = [0, 1].map(|axis| self.query.layout().shape()[axis]);
        let (output, lse) = attention.forward(batch);
        let n_heads = attention.n_heads;
        let width = n_heads * attention.query.d_head;
        (
            flex::primitive(output, &[batch, t, width]),
            flex::primitive(lse, &[batch, n_heads, t]),
        )
    }

    /// Returns the gradient of packed queries, keys and values. The elements of `forward` are the
    /// output, the log-sum-exp and the gradient of the output.
    #[cfg(feature = "autodiff")]
    pub(super) fn backward_self(&self, forward: [FlexTensor; 3]) -> FlexTensor {
        let _timer = Timer::of("attention");
        let shape = self.query.layout().shape();
        let forward = forward.map(|tensor| tensor.to_contiguous());
        let grad = self
            .attention()
            .backward_packed(shape[0], backward(&forward));
        flex::primitive(grad, shape)
    }

    /// Returns the gradient of the queries, and the gradient of packed keys and values. The
    /// elements of `forward` are the output, the log-sum-exp and the gradient of the output.
    #[cfg(feature = "autodiff")]
    pub(super) fn backward_cross(&self, forward: [FlexTensor; 3]) -> [FlexTensor; 2] {
        let _timer = Timer::of("attention");
        let key_value = self
            .key_value
            .as_ref()
            .expect("cross-attention has keys and values in a tensor of their own");
        let shapes = [&self.query, key_value].map(|tensor| tensor.layout().shape());
        let forward = forward.map(|tensor| tensor.to_contiguous());
        let (query, packed) = self.attention().backward(shapes[0][0], backward(&forward));
        [
            flex::primitive(query, shapes[0]),
            flex::primitive(packed, shapes[1]),
        ]
    }

    fn mask(&self) -> Option<MaskBytes<'_>> {
        let KeyMask::Blocked(mask) = &self.mask else {
            return None;
        };
        let layout = mask.layout();
        let strides = std::array::from_fn(|axis| match layout.shape()[axis] {
            1 => 0,
            _ => usize::try_from(layout.strides()[axis]).expect("a stride is not negative"),
        });
        Some(MaskBytes {
            data: &mask.storage::<u8>()[layout.start_offset()..],
            strides,
        })
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

#[cfg(feature = "autodiff")]
fn backward(forward: &[FlexTensor; 3]) -> Backward<'_> {
    let [output, lse, grad] = forward.each_ref().map(flex::slice);
    Backward { output, lse, grad }
}
