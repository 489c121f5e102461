//! Greedy decoding: the likeliest token at each step.

use burn::tensor::{Int, Tensor, TensorData};

use crate::model::Transformer;

/// Decodes a batch of sources at once, one token a step through the cache, until each target has
/// its end symbol or `max_length` tokens.
///
/// The targets come without `bos` and `eos`.
///
/// # Shapes
///
/// - source: `[B, S]`
/// - output: `B` targets of at most `max_length` tokens
///
/// # Panics
///
/// If `S` or `max_length` is more than the model's `max_len`.
pub fn greedy(
    model: &Transformer,
    source: Tensor<2, Int>,
    bos: u32,
    eos: Option<u32>,
    max_length: usize,
) -> Vec<Vec<u32>> {
    let [batch, _] = source.dims();
    let device = source.device();
    let memory = model.encode(source);
    let mut cache = model.decoder.new_cache_with_capacity(max_length);
    let mut targets = vec![Vec::new(); batch];
    let mut finished = vec![false; batch];
    let mut last = Tensor::<2, Int>::full([batch, 1], bos, &device);
    for _ in 0..max_length {
        let next = model.decode(last, &memory, &mut cache).argmax(2);
        let ids: Vec<u32> = next.into_data().iter::<u32>().collect();
        for ((&id, target), finished) in ids.iter().zip(&mut targets).zip(&mut finished) {
            *finished |= Some(id) == eos;
            if !*finished {
                target.push(id);
            }
        }
        if finished.iter().all(|&finished| finished) {
            break;
        }
        last = Tensor::from_data(TensorData::new(ids, [batch, 1]), &device);
    }
    targets
}
