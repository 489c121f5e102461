//! Attention masks (paper, section 3.2.3).
//!
//! **`true` blocks a key**, as everywhere in Burn. In the masks of many PyTorch models, 1 marks a
//! visible key; [`AttentionMask::from_visible`] accepts such masks.

use std::sync::OnceLock;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

/// A mask of the keys to which each query must not attend.
///
/// The mask is a Boolean tensor `[B or 1, H or 1, T or 1, S]` in which `true` blocks a key.
/// If all keys of a query are blocked, all its attention weights are 0.
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
    blocks: Blocks,
    /// Queries whose keys are all blocked, `[B or 1, H or 1, T or 1, 1]`; computed at first use.
    blind: OnceLock<Tensor<4, Bool>>,
}

/// What is known of the keys that a mask blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blocks {
    /// No key.
    Nothing,
    /// The keys after each query, where the last query is at the last key.
    Later,
    /// Not all keys of a query.
    Some,
    Any,
}

impl AttentionMask {
    /// Creates a mask that blocks the keys with the id of padding.
    ///
    /// If a sequence may contain this id as a token, use [`of_lengths`](Self::of_lengths).
    ///
    /// # Shapes
    ///
    /// - ids: `[B, S]`; a key is blocked if its id is `pad_id`
    /// - mask: `[B, 1, 1, S]`, `true` = blocked
    pub fn padding(ids: &Tensor<2, Int>, pad_id: u32) -> Self {
        Self::from(ids.clone().equal_elem(pad_id))
    }

    /// Creates a mask that blocks, in each row, the keys after the row's length.
    ///
    /// # Shapes
    ///
    /// - lengths: number of tokens of each of the `B` rows, without padding
    /// - mask: `[B, 1, 1, S]`, `true` = blocked; `S` is the largest length, at least 1, as in
    ///   [`pad_sequences`](crate::pad_sequences). For sequences that are padded further, use
    ///   [`of_lengths_within`](Self::of_lengths_within).
    pub fn of_lengths(lengths: &[usize], device: &Device) -> Self {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        Self::of_lengths_within(lengths, longest.max(1), device)
    }

    /// Creates the mask of [`of_lengths`](Self::of_lengths) for sequences that are all padded to
    /// `padded_length` (`S`), such as frames of sound.
    ///
    /// # Panics
    ///
    /// If a length exceeds `padded_length`.
    pub fn of_lengths_within(lengths: &[usize], padded_length: usize, device: &Device) -> Self {
        if let Some(length) = lengths.iter().find(|&&length| length > padded_length) {
            panic!("a length is {length}, but sequences are padded to {padded_length}");
        }
        let blocked = lengths
            .iter()
            .flat_map(|&length| (0..padded_length).map(move |key| key >= length));
        let blocked = TensorData::new(
            blocked.collect::<Vec<bool>>(),
            [lengths.len(), 1, 1, padded_length],
        );
        let blocks = match lengths.iter().min() {
            Some(0) | None => Blocks::Any,
            Some(&shortest) if shortest == padded_length => Blocks::Nothing,
            Some(_) => Blocks::Some,
        };
        Self::new(Tensor::from_data(blocked, device), blocks)
    }

    /// Creates a mask that blocks, for each query, the keys at later positions.
    ///
    /// # Shapes
    ///
    /// - mask: `[1, 1, length, length]`, `true` = blocked
    ///
    /// # Panics
    ///
    /// If `length` is 0.
    pub fn causal(length: usize, device: &Device) -> Self {
        Self::causal_after(0, length, device)
    }

    /// Creates the causal mask for `length` queries that follow `past` earlier tokens.
    ///
    /// # Shapes
    ///
    /// - mask: `[1, 1, length, past + length]`, `true` = blocked
    ///
    /// # Panics
    ///
    /// If `length` is 0.
    pub fn causal_after(past: usize, length: usize, device: &Device) -> Self {
        assert!(length > 0, "a causal mask is for at least one query, not 0");
        // Two vectors of positions are compared, because Burn's `tril_mask` allocates an integer
        // for every pair of query and key.
        let [first, last] = [past as i64, (past + length) as i64];
        let query = Tensor::<1, Int>::arange(first..last, device).reshape([1, 1, length, 1]);
        let key = Tensor::<1, Int>::arange(0..last, device).reshape([1, 1, 1, past + length]);
        Self::new(key.greater(query), Blocks::Later)
    }

    /// Creates a mask from a tensor in which `true` blocks a key.
    ///
    /// # Shapes
    ///
    /// - blocked, `true` = blocked: of keys `[B, S]`, of queries and keys `[B or 1, T, S]` as
    ///   burn-nn's `mask_attn`, or of heads, too, `[B or 1, H or 1, T or 1, S]`
    ///
    /// A mask `[T, S]` of queries and keys, as PyTorch's `tgt_mask`, needs a third dimension: with two, it
    /// is one of keys, which is not noticed if there are as many sequences as queries.
    ///
    /// # Panics
    ///
    /// If the tensor has one dimension or more than four.
    pub fn from_blocked<const D: usize>(blocked: Tensor<D, Bool>) -> Self {
        let dims = blocked.dims();
        let shape = match dims[..] {
            [batch, keys] => [batch, 1, 1, keys],
            [batch, queries, keys] => [batch, 1, queries, keys],
            [batch, heads, queries, keys] => [batch, heads, queries, keys],
            _ => panic!("a mask has 2 to 4 dimensions, but this one is {dims:?}"),
        };
        Self::new(blocked.reshape(shape), Blocks::Any)
    }

    /// Creates a mask from a tensor in which `true` marks a visible key, as in many PyTorch models and
    /// in the `attention_mask` of Hugging Face transformers.
    ///
    /// # Shapes
    ///
    /// - visible, `true` = visible: as in [`from_blocked`](Self::from_blocked)
    ///
    /// # Panics
    ///
    /// If the tensor has one dimension or more than four.
    pub fn from_visible<const D: usize>(visible: Tensor<D, Bool>) -> Self {
        Self::from_blocked(visible.bool_not())
    }

    /// A mask has no gradient, and so no autodiff, wherever it was made.
    fn new(blocked: Tensor<4, Bool>, blocks: Blocks) -> Self {
        Self {
            blocked: blocked.inner(),
            blocks,
            blind: OnceLock::new(),
        }
    }

    /// Combines two masks: a key is visible only if it is visible in both.
    ///
    /// Axes of size 1 are broadcast, except for the keys.
    ///
    /// # Panics
    ///
    /// If the masks have different sizes on an axis and neither size is 1, or another number of keys.
    pub fn and(&self, other: &Self) -> Self {
        let (left, right) = (self.blocked.dims(), other.blocked.dims());
        let shape = std::array::from_fn(|axis| {
            let (l, r) = (left[axis], right[axis]);
            assert!(
                l == r || axis < 3 && (l == 1 || r == 1),
                "masks {left:?} and {right:?} cannot be combined: axis {axis} of (batch, heads, queries, keys) differs"
            );
            if l == 1 { r } else { l }
        });
        let expand = |mask: &Self| mask.blocked.clone().expand::<4, [usize; 4]>(shape);
        Self::from_blocked(expand(self).bool_or(expand(other)))
    }

    /// Checks that the mask is made for scores `[B, H, T, S]`.
    ///
    /// # Panics
    ///
    /// If an axis has neither the size of the scores nor, except for the keys, size 1. A mask of one
    /// key would otherwise block all keys or none.
    pub(crate) fn check(&self, scores: [usize; 4]) {
        let found = self.blocked.dims();
        let fits = |axis: usize| found[axis] == scores[axis] || found[axis] == 1 && axis < 3;
        assert!(
            (0..4).all(fits),
            "the mask is {found:?}, but the scores are {scores:?} (batch, heads, queries, keys)"
        );
    }

    /// Checks that the mask is one of keys alone, as a memory `[B, S, D]` has: it is for targets of any
    /// length.
    pub(crate) fn check_of_memory(&self, [batch, keys, _]: [usize; 3]) {
        let found = self.blocked.dims();
        assert!(
            [1, batch].contains(&found[0]) && found[1..] == [1, 1, keys],
            "the mask of the memory is {found:?}, but must be [{batch} or 1, 1, 1, {keys}]; for another mask of the encoder, pass its output as a `Memory`"
        );
    }

    /// Returns the mask of the given batch rows; `rows` may contain an index several times. A mask
    /// with one row, which applies to the whole batch, is returned unchanged.
    pub(crate) fn select(&self, rows: Tensor<1, Int>) -> Self {
        match self.blocked.dims()[0] {
            1 => self.clone(),
            _ => Self::new(self.blocked.clone().select(0, rows.inner()), self.blocks),
        }
    }

    /// Returns the mask as a tensor `[B or 1, H or 1, T or 1, S]`, `true` = blocked, without autodiff.
    pub fn blocked(&self) -> &Tensor<4, Bool> {
        &self.blocked
    }

    /// Returns a tensor `[B or 1, H or 1, T or 1, 1]` that is `true` for queries whose keys are all
    /// blocked; `None` if the mask's constructor rules out such queries.
    pub(crate) fn blind(&self) -> Option<&Tensor<4, Bool>> {
        let find = || self.blocked.clone().all_dim(3);
        (self.blocks == Blocks::Any).then(|| self.blind.get_or_init(find))
    }

    /// Returns whether the mask blocks a key.
    pub(crate) fn blocks_any(&self) -> bool {
        self.blocks != Blocks::Nothing
    }

    /// Returns whether the mask blocks the keys after each query, and no other.
    pub(crate) fn is_causal(&self) -> bool {
        self.blocks == Blocks::Later
    }
}

impl From<Tensor<2, Bool>> for AttentionMask {
    /// Creates a mask from a padding mask `[B, S]` in which `true` is padding, as burn-nn's
    /// encoders take it. The opposite is [`AttentionMask::from_visible`]. A mask of queries and keys,
    /// `[T, S]`, needs a third dimension for [`AttentionMask::from_blocked`].
    fn from(padding: Tensor<2, Bool>) -> Self {
        Self::from_blocked(padding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_ids_and_tensors_make_the_same_mask() {
        let device = Device::flex();
        let ids = Tensor::<2, Int>::from_data([[5, 6, 7], [8, 0, 0], [0, 0, 0]], &device);
        let padding = Tensor::<2, Bool>::from_data(
            [
                [false, false, false],
                [false, true, true],
                [true, true, true],
            ],
            &device,
        );
        for mask in [
            AttentionMask::of_lengths(&[3, 1, 0], &device),
            AttentionMask::of_lengths_within(&[3, 1, 0], 3, &device),
            AttentionMask::padding(&ids, 0),
            AttentionMask::from(padding.clone()),
            AttentionMask::from_visible(padding.clone().bool_not()),
            AttentionMask::from_visible(padding.clone().bool_not().reshape([3, 1, 1, 3])),
            AttentionMask::from_blocked(padding.clone().reshape([3, 1, 3])),
        ] {
            let blocked = mask.blocked().clone().reshape([3, 3]);
            assert_eq!(blocked.into_data(), padding.to_data());
            let blind: Vec<bool> = mask.blind().unwrap().to_data().iter().collect();
            assert_eq!(blind, [false, false, true]);
        }
        let padded = AttentionMask::of_lengths_within(&[1, 0], 4, &device);
        assert_eq!(padded.blocked().dims(), [2, 1, 1, 4]);
        assert!(
            AttentionMask::of_lengths(&[3, 1], &device)
                .blind()
                .is_none()
        );
    }

    #[test]
    fn a_mask_with_one_row_is_the_same_for_all_rows() {
        let device = Device::flex();
        let rows = |rows: [i32; 2]| Tensor::<1, Int>::from_ints(rows, &device);
        let values =
            |mask: &AttentionMask| -> Vec<bool> { mask.blocked.to_data().iter().collect() };
        let one = Tensor::<4, Int>::from_ints([[[[0, 1, 0]]]], &device).bool();
        let mask = AttentionMask::from_blocked(one.clone()).select(rows([2, 0]));
        assert_eq!(mask.blocked.dims(), [1, 1, 1, 3]);
        assert_eq!(values(&mask), [false, true, false]);
        let two = Tensor::cat(vec![one.clone(), one.bool_not()], 0);
        let mask = AttentionMask::from_blocked(two).select(rows([1, 1]));
        assert_eq!(mask.blocked.dims(), [2, 1, 1, 3]);
        assert_eq!(values(&mask), [true, false, true, true, false, true]);
    }
}
