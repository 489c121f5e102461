//! Who may look at whom (paper, section 3.2.3).
//!
//! **`true` is blocked**, as everywhere in Burn. Most PyTorch code writes it the other
//! way round (1 = visible); [`AttentionMask::from_visible`] takes those.

use burn::tensor::{Bool, Device, Int, Tensor};

/// Which keys each query may not attend to: `[B or 1, H or 1, T or 1, S or 1]`, `true` = blocked.
///
/// A query whose keys are all blocked gets a zero vector from attention, never NaN.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use transformer::AttentionMask;
/// let device = Device::flex();
/// let ids = Tensor::<2, Int>::from_data([[5, 6, 0]], &device);
/// let mask = AttentionMask::padding(&ids, 0).and(&AttentionMask::causal(3, &device));
/// assert_eq!(mask.blocked().dims(), [1, 1, 3, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct AttentionMask {
    blocked: Tensor<4, Bool>,
    /// Queries that see nothing, `[.., .., T or 1, 1]`; none where the mask cannot have any.
    blind: Option<Tensor<4, Bool>>,
}

impl AttentionMask {
    /// Blocks the keys that are padding.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, S]`
    /// - mask: `[B, 1, 1, S]`
    pub fn padding(ids: &Tensor<2, Int>, pad_id: u32) -> Self {
        let [batch, length] = ids.dims();
        Self::from_blocked(
            ids.clone()
                .equal_elem(pad_id)
                .reshape([batch, 1, 1, length]),
        )
    }

    /// Blocks the keys that come after the query.
    ///
    /// # Shapes
    ///
    /// - mask: `[1, 1, T, T]`
    pub fn causal(length: usize, device: &Device) -> Self {
        Self::causal_after(0, length, device)
    }

    /// The causal mask of `length` queries that follow `past` earlier tokens.
    ///
    /// # Shapes
    ///
    /// - mask: `[1, 1, length, past + length]`
    pub fn causal_after(past: usize, length: usize, device: &Device) -> Self {
        let blocked = Tensor::<2, Bool>::tril_mask([length, past + length], past as i64, device);
        Self {
            blocked: blocked.unsqueeze(),
            // Every query sees itself.
            blind: None,
        }
    }

    /// A mask of your own, `true` = blocked.
    pub fn from_blocked(blocked: Tensor<4, Bool>) -> Self {
        let blind = Some(blocked.clone().all_dim(3));
        Self { blocked, blind }
    }

    /// A mask of your own, `true` = visible: the way most PyTorch code has it.
    pub fn from_visible(visible: Tensor<4, Bool>) -> Self {
        Self::from_blocked(visible.bool_not())
    }

    /// Both masks at once: a key is visible only where both let it be seen.
    ///
    /// # Panics
    ///
    /// If an axis has two different sizes, neither of them 1.
    pub fn and(&self, other: &Self) -> Self {
        let (left, right) = (self.blocked.dims(), other.blocked.dims());
        let shape = std::array::from_fn(|axis| {
            let (l, r) = (left[axis], right[axis]);
            assert!(
                l == r || l == 1 || r == 1,
                "masks {left:?} and {right:?} do not fit together at axis {axis}"
            );
            if l == 1 { r } else { l }
        });
        let expand = |mask: &Self| mask.blocked.clone().expand::<4, [usize; 4]>(shape);
        Self::from_blocked(expand(self).bool_or(expand(other)))
    }

    /// The mask of some of the batch's rows, or of one of them several times.
    pub(crate) fn select(&self, rows: Tensor<1, Int>) -> Self {
        let select = |mask: &Tensor<4, Bool>| match mask.dims()[0] {
            1 => mask.clone(),
            _ => mask.clone().select(0, rows.clone()),
        };
        Self {
            blocked: select(&self.blocked),
            blind: self.blind.as_ref().map(select),
        }
    }

    /// The tensor itself, `true` = blocked.
    pub fn blocked(&self) -> &Tensor<4, Bool> {
        &self.blocked
    }

    /// Queries that see nothing, or none if that cannot be.
    pub(crate) fn blind(&self) -> Option<&Tensor<4, Bool>> {
        self.blind.as_ref()
    }
}
