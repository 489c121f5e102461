//! Who may look at whom (paper, section 3.2.3).
//!
//! **`true` is blocked**, as everywhere in Burn. Most PyTorch code writes it the other
//! way round (1 = visible); [`AttentionMask::from_visible`] takes those.

use std::sync::OnceLock;

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
    /// Whether there may be queries that see nothing.
    may_blind: bool,
    /// Queries that see nothing, `[.., .., T or 1, 1]`, once somebody has asked for them.
    blind: OnceLock<Tensor<4, Bool>>,
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
        // Of two rows of positions: Burn's `tril_mask` holds an integer for each pair meanwhile.
        let [first, last] = [past as i64, (past + length) as i64];
        let query = Tensor::<1, Int>::arange(first..last, device).reshape([1, 1, length, 1]);
        let key = Tensor::<1, Int>::arange(0..last, device).reshape([1, 1, 1, past + length]);
        Self {
            blocked: key.greater(query),
            // Every query sees itself.
            may_blind: false,
            blind: OnceLock::new(),
        }
    }

    /// A mask of your own, `true` = blocked.
    pub fn from_blocked(blocked: Tensor<4, Bool>) -> Self {
        Self {
            blocked,
            may_blind: true,
            blind: OnceLock::new(),
        }
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
        match self.blocked.dims()[0] {
            1 => self.clone(),
            _ => Self {
                blocked: self.blocked.clone().select(0, rows),
                may_blind: self.may_blind,
                blind: OnceLock::new(),
            },
        }
    }

    /// The tensor itself, `true` = blocked.
    pub fn blocked(&self) -> &Tensor<4, Bool> {
        &self.blocked
    }

    /// Queries that see nothing, or none if that cannot be.
    pub(crate) fn blind(&self) -> Option<&Tensor<4, Bool>> {
        let find = || self.blocked.clone().all_dim(3);
        self.may_blind.then(|| self.blind.get_or_init(find))
    }
}
