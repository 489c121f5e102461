//! The attention mask, as an argument of dispatched operations. `mod.rs` explains the letters in
//! shapes.

use burn::backend::tensor::BoolTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{Bool, Tensor};

/// An attention mask, which may be absent.
#[derive(Clone, Debug, ExtensionType)]
pub(crate) enum KeyMask<B: Backend> {
    /// All keys are visible.
    None,
    /// Keys are blocked where the mask is true: `[B or 1, H or 1, T or 1, S or 1]`.
    Blocked(BoolTensor<B>),
}

impl KeyMask<Dispatch> {
    pub fn of(mask: Option<&Tensor<4, Bool>>) -> Self {
        match mask {
            None => Self::None,
            Some(mask) => Self::Blocked(mask.clone().into_dispatch()),
        }
    }
}

#[cfg(feature = "autodiff")]
impl<B, C> KeyMask<burn::backend::Autodiff<B, C>>
where
    B: Backend,
    C: burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy,
{
    /// Turns a mask of the autodiff backend into a mask of its inner backend `B`. Both backends
    /// have the same type of boolean tensors.
    pub fn inner(self) -> KeyMask<B> {
        match self {
            Self::None => KeyMask::None,
            Self::Blocked(mask) => KeyMask::Blocked(mask),
        }
    }
}
