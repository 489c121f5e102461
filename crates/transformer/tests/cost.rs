//! Tests that a step of generation allocates no more bytes for long targets than for short ones,
//! apart from the attention weights and the cache index.
//!
//! The test counts bytes, because times depend on the load of the machine.
#![allow(unsafe_code)] // The allocator that counts implements an unsafe trait.

use burn::tensor::{Device, Tensor};
use transformer::generate::{Autoregressive, DecoderSession};
use transformer::{Memory, TransformerConfig};

#[path = "../../fused/tests/common/allocations.rs"]
#[allow(dead_code)]
mod allocations;

use allocations::allocated;

const D_MODEL: usize = 64;
const LENGTHS: [usize; 3] = [64, 256, 1024];

/// Returns the number of bytes that the steps at the three `LENGTHS` allocate.
///
/// A step has `width` targets. From the second step on, `parents(step)` returns their parents.
fn bytes(width: usize, parents: impl Fn(usize) -> Vec<usize>) -> [usize; 3] {
    let device = Device::flex();
    device.seed(1);
    let longest = LENGTHS[2];
    let decoder = TransformerConfig::new(50, 50)
        .with_d_model(D_MODEL)
        .with_n_heads(4)
        .with_d_ff(128)
        .with_n_decoder_layers(2)
        .with_max_len(longest)
        .decoder()
        .init(&device)
        .unwrap();
    let memory = Memory::from(Tensor::<3>::ones([1, 9, D_MODEL], &device));
    let mut session = DecoderSession::new(&decoder, Some(memory), width, longest);
    let mut counted = Vec::new();
    for step in 1..=longest {
        let parents = if step == 1 {
            vec![0; width]
        } else {
            parents(step)
        };
        let tokens = vec![3; width];
        let [_, before] = allocated();
        let logits = session.step(&parents, &tokens);
        let [_, after] = allocated();
        assert_eq!(logits.len(), width * 50);
        if LENGTHS.contains(&step) {
            counted.push(after - before);
        }
    }
    counted.try_into().unwrap()
}

// This program has a single test, so that no other test allocates at the same time.
#[test]
fn a_step_allocates_as_much_at_1024_tokens_as_at_64() {
    // Turns fast paths on, even if the environment variable `FUSED_FAST_PATHS` turns them off.
    // Without fast paths, a step copies the keys and values that it reads.
    let _fast_paths = fused::fast_paths(true);
    // Size in bytes of the keys and values of one target in one layer, at 256 tokens. A cache that
    // grows by concatenation, or copies the past of a beam, would allocate this many bytes for each
    // layer and target.
    let past = 256 * 2 * D_MODEL * 4;

    // The attention weights have 4 bytes per token in each of 4 heads and 2 layers.
    let weights = |length: usize| 2 * 4 * 4 * length;
    let [at_64, at_256, at_1024] = bytes(1, |_| vec![0]);
    assert!(at_256 <= at_64 + weights(256), "{at_64}, {at_256}");
    assert!(at_1024 <= at_64 + weights(1024), "{at_64}, {at_1024}");
    assert!(at_256 < past);

    // When targets branch, a step also allocates the cache index, with 4 bytes for each token of 5
    // targets, in at most three copies.
    let branch = |step: usize| (0..5).map(|row| (row * step) % 5).collect();
    let rows = |length: usize| 3 * 5 * 4 * length;
    let [at_64, at_256, at_1024] = bytes(5, branch);
    assert!(
        at_256 <= at_64 + weights(256) + rows(256),
        "{at_64}, {at_256}"
    );
    assert!(
        at_1024 <= at_64 + weights(1024) + rows(1024),
        "{at_64}, {at_1024}"
    );
    assert!(at_256 < 5 * past);
}
