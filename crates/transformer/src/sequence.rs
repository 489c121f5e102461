//! Checks of token ids, batches of similar lengths, and padding of token sequences into one tensor.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::InputError;

/// Label that has no loss, as PyTorch's `ignore_index`: pad labels with it.
pub const IGNORE_INDEX: i64 = -100;

/// Returns sequences of different lengths as one tensor, padded at the end with `padding`.
///
/// The padding of sources and targets is any token of their vocabularies: the source's
/// [mask](crate::AttentionMask::of_lengths) hides it from the model. The padding of labels is
/// [`IGNORE_INDEX`].
///
/// # Shapes
///
/// - output: `[B, S]`, where `S` is the length of the longest sequence, at least 1
///
/// ```
/// use burn::tensor::Device;
/// use transformer::pad_sequences;
///
/// let ids = pad_sequences(&[vec![5, 6, 7], vec![8]], 0, &Device::flex());
/// assert_eq!(ids.dims(), [2, 3]);
/// ```
pub fn pad_sequences(
    sequences: &[impl AsRef<[u32]>],
    padding: impl Into<i64>,
    device: &Device,
) -> Tensor<2, Int> {
    let padding = padding.into();
    let lengths = sequences.iter().map(|sequence| sequence.as_ref().len());
    let length = lengths.max().unwrap_or(0).max(1);
    let mut ids = Vec::with_capacity(sequences.len() * length);
    for sequence in sequences {
        let sequence = sequence.as_ref();
        ids.extend(sequence.iter().map(|&id| i64::from(id)));
        ids.extend(std::iter::repeat_n(padding, length - sequence.len()));
    }
    Tensor::from_data(TensorData::new(ids, [sequences.len(), length]), device)
}

/// Divides sequences, or pairs of a source and a target, into batches of similar lengths, so that
/// little is padded.
///
/// `lengths` has the lengths of each, 0 for what there is not. Returns the indices of each batch. The
/// shortest come first, by the longer side and then by the source. A batch has at most `max_sequences`
/// sequences and, unless it has only one, `max_tokens` tokens on its longer side, padding included.
///
/// ```
/// use transformer::batches_by_length;
///
/// let lengths = [9, 2, 5, 3, 9, 4].map(|length| [length, 0]);
/// assert_eq!(batches_by_length(&lengths, 2, usize::MAX), [[1, 3], [5, 2], [0, 4]]);
/// assert_eq!(batches_by_length(&lengths, 6, 12), [vec![1, 3, 5], vec![2], vec![0], vec![4]]);
/// ```
pub fn batches_by_length(
    lengths: &[[usize; 2]],
    max_sequences: usize,
    max_tokens: usize,
) -> Vec<Vec<usize>> {
    let longer = |index: usize| lengths[index][0].max(lengths[index][1]);
    let mut indices: Vec<usize> = (0..lengths.len()).collect();
    indices.sort_by_key(|&index| (longer(index), lengths[index][0]));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for index in indices {
        let fits = |batch: &Vec<usize>| {
            let sequences = batch.len() + 1;
            sequences <= max_sequences && sequences * longer(index) <= max_tokens
        };
        match batches.last_mut().filter(|batch| fits(batch)) {
            Some(batch) => batch.push(index),
            None => batches.push(vec![index]),
        }
    }
    batches
}

/// Checks that a model can process token ids, for example ids that a user supplies.
///
/// For ids outside the vocabulary, CPU backends panic, and other backends may return arbitrary
/// embeddings.
///
/// # Errors
///
/// The batch is empty, a sequence is longer than `max_len`, or an id is not in `0..vocab_size`.
pub fn check_sequences(
    sequences: &[impl AsRef<[u32]>],
    vocab_size: usize,
    max_len: usize,
) -> Result<(), InputError> {
    if sequences.is_empty() {
        return Err(InputError::EmptyBatch);
    }
    for (index, sequence) in sequences.iter().enumerate() {
        let sequence = sequence.as_ref();
        if sequence.len() > max_len {
            return Err(InputError::TooLong {
                sequence: index,
                length: sequence.len(),
                max_len,
            });
        }
        if let Some(position) = sequence.iter().position(|&id| id as usize >= vocab_size) {
            return Err(InputError::TokenOutOfRange {
                sequence: index,
                position,
                id: sequence[position],
                vocab_size,
            });
        }
    }
    Ok(())
}
