//! Attention on tensors of flex. `mod.rs` explains the letters in shapes.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Bool, Tensor};

use super::cache_index::CacheIndex;
#[cfg(feature = "autodiff")]
use super::kernel::backward::Backward;
use super::kernel::heads::{Attention, Heads, MaskBytes};
use super::kernel::step::CachedAttention;
use super::mask::KeyMask;
use super::terms::{Form, ScoreBias, ScoreTerms};
use crate::backend::flex::{self, FlexTensor};
use crate::ops::dropout::flex::draw;
use crate::ops::dropout::kernel::Dropout;
use crate::profile::Timer;

/// The operations that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait AttentionOps: Backend {
    /// Returns the output of self-attention, `[B, T, H * K]`, from packed queries, keys and values,
    /// `[B, T, H + 2 * G, K]`.
    fn fused_self_attention(
        packed: FloatTensor<Self>,
        #[extension_type] mask: KeyMask<Self>,
        #[extension_type] bias: ScoreBias<Self>,
        form: Form,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// Returns the output of cross-attention, `[B, T, H * K]`, from queries, `[B, T, H, K]`, and
    /// packed keys and values, `[B, S, 2 * G, K]`.
    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        #[extension_type] mask: KeyMask<Self>,
        form: Form,
        dropout: Dropout,
    ) -> FloatTensor<Self>;
}

/// The fast path of self-attention. Returns `None` if the mask is not on flex or does not have one
/// byte per element, or if the bias is not f32 on flex.
pub(super) fn self_attention(
    packed: Tensor<4>,
    n_heads: usize,
    terms: ScoreTerms<'_>,
    dropout: f64,
) -> Option<Tensor<3>> {
    if !has_bytes(terms.mask) || !terms.bias.is_none_or(flex::takes) {
        return None;
    }
    let form = terms.form(n_heads, packed.dims()[3]);
    let dropout = draw(dropout, &packed.device());
    let (mask, bias) = (KeyMask::of(terms.mask), ScoreBias::of(terms.bias));
    let y = Dispatch::fused_self_attention(packed.into_dispatch(), mask, bias, form, dropout);
    Some(Tensor::from_dispatch(y))
}

/// The fast path of cross-attention. Returns `None` if the mask is not on flex or does not have one
/// byte per element.
pub(super) fn cross_attention(
    query: Tensor<4>,
    packed: Tensor<4>,
    terms: ScoreTerms<'_>,
    dropout: f64,
) -> Option<Tensor<3>> {
    if !has_bytes(terms.mask) {
        return None;
    }
    let [.., n_heads, d_head] = query.dims();
    let form = terms.form(n_heads, d_head);
    let dropout = draw(dropout, &query.device());
    let (query, packed) = (query.into_dispatch(), packed.into_dispatch());
    let y = Dispatch::fused_cross_attention(query, packed, KeyMask::of(terms.mask), form, dropout);
    Some(Tensor::from_dispatch(y))
}

fn has_bytes(mask: Option<&Tensor<4, Bool>>) -> bool {
    mask.is_none_or(|mask| flex::bool(mask).is_some())
}

/// The fast path of attention with one query per target. It has no backward pass, so it is a plain
/// function and not a method of a trait that Burn dispatches.
///
/// Returns `None` if fast paths are off, if `query`, `packed` or the bias is not f32 on flex
/// without autodiff, or if the strides of `query` are not supported. Also returns `None` if the
/// mask is not on flex, or does not have the shape `[N, 1, 1, T]` and one byte per element.
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
    let [n, capacity, n_packed, _] = packed.dims();
    let (query, packed) = (flex::float(query)?, flex::float(packed)?.to_contiguous());
    let [query_stride, _, head_stride, 1] = *query.layout().strides() else {
        return None;
    };
    let query_stride = usize::try_from(query_stride).ok()?;
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
        query_stride,
        packed: flex::slice(&packed),
        capacity,
        index,
        length,
        mask: mask.as_ref().map(|mask| {
            let begin = mask.layout().start_offset();
            &mask.storage::<u8>()[begin..begin + n * length]
        }),
        bias: bias.as_ref().map(flex::slice),
        scale: terms.form(n_heads, d_head).scale as f32,
        n_heads,
        group: n_heads / (n_packed / 2),
        d_head,
    };
    let output = attention.forward(rows);
    Some(flex::tensor(output, [rows, 1, n_heads * d_head]))
}

impl AttentionOps for Flex {
    fn fused_self_attention(
        packed: FlexTensor,
        mask: KeyMask<Self>,
        bias: ScoreBias<Self>,
        form: Form,
        dropout: Dropout,
    ) -> FlexTensor {
        let inputs = Inputs::of_self(packed, mask, form, dropout);
        inputs.with_bias(bias).forward().0
    }

    fn fused_cross_attention(
        query: FlexTensor,
        packed: FlexTensor,
        mask: KeyMask<Self>,
        form: Form,
        dropout: Dropout,
    ) -> FlexTensor {
        let inputs = Inputs::of_cross(query, packed, mask, form, dropout);
        inputs.forward().0
    }
}

/// The inputs of attention. All tensors except the mask are contiguous.
pub(super) struct Inputs {
    /// Queries, packed with keys and values if `key_value` is `None`.
    query: FlexTensor,
    /// Packed keys and values, or `None` if they are packed with the queries.
    key_value: Option<FlexTensor>,
    mask: KeyMask<Flex>,
    /// Bias that is added to the scores of every sequence, `[1, H, T, S]`.
    bias: Option<FlexTensor>,
    form: Form,
    dropout: Dropout,
}

impl Inputs {
    /// Returns the inputs of self-attention, from packed queries, keys and values,
    /// `[B, T, H + 2 * G, K]`.
    pub(super) fn of_self(
        packed: FlexTensor,
        mask: KeyMask<Flex>,
        form: Form,
        dropout: Dropout,
    ) -> Self {
        Self {
            query: packed.to_contiguous(),
            key_value: None,
            mask: match mask {
                KeyMask::Blocked(mask) if mask.layout().strides().iter().any(|&s| s < 0) => {
                    KeyMask::Blocked(mask.to_contiguous())
                }
                mask => mask,
            },
            bias: None,
            form,
            dropout,
        }
    }

    /// Returns the inputs of cross-attention, from queries, `[B, T, H, K]`, and packed keys and
    /// values, `[B, S, 2 * G, K]`.
    pub(super) fn of_cross(
        query: FlexTensor,
        packed: FlexTensor,
        mask: KeyMask<Flex>,
        form: Form,
        dropout: Dropout,
    ) -> Self {
        Self {
            key_value: Some(packed.to_contiguous()),
            ..Self::of_self(query, mask, form, dropout)
        }
    }

    pub(super) fn with_bias(mut self, bias: ScoreBias<Flex>) -> Self {
        self.bias = match bias {
            ScoreBias::None => None,
            ScoreBias::Added(bias) => Some(bias.to_contiguous()),
        };
        self
    }

    fn attention(&self) -> Attention<'_> {
        let Form { n_heads, scale } = self.form;
        let (packed, before) = match &self.key_value {
            Some(packed) => (packed, 0),
            None => (&self.query, n_heads),
        };
        let of_keys = (packed.layout().shape()[2] - before) / 2;
        Attention {
            query: heads(&self.query, 0),
            key: heads(packed, before),
            value: heads(packed, before + of_keys),
            n_heads,
            group: n_heads / of_keys,
            mask: self.mask(),
            dropout: self.dropout,
            bias: self.bias.as_ref().map(flex::slice),
            scale: scale as f32,
        }
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

    /// Returns the same gradient as [`backward_self`](Self::backward_self), and the gradient of the
    /// bias.
    #[cfg(feature = "autodiff")]
    pub(super) fn backward_self_and_bias(&self, forward: [FlexTensor; 3]) -> [FlexTensor; 2] {
        let _timer = Timer::of("attention");
        let shape = self.query.layout().shape();
        let forward = forward.map(|tensor| tensor.to_contiguous());
        let attention = self.attention();
        let (grad, bias) = attention.backward_packed_and_bias(shape[0], backward(&forward));
        let bias_shape = [1, attention.n_heads, shape[1], shape[1]];
        [
            flex::primitive(grad, shape),
            flex::primitive(bias, &bias_shape),
        ]
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
