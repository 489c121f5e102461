//! A step of generation costs the same wherever it stands, but for attention itself: counted in
//! bytes that are allocated and in rows that are fed, which no machine's load changes.
#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Device, Tensor};
use transformer::generate::{Autoregressive, DecoderSession};
use transformer::{Memory, TransformerConfig};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's own; counting does not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const D_MODEL: usize = 64;
const LENGTHS: [usize; 3] = [64, 256, 1024];

/// Bytes that the steps at these lengths allocate.
fn bytes(width: usize, parents: impl Fn(usize) -> Vec<usize>) -> [usize; 3] {
    let device = Device::flex();
    let longest = LENGTHS[2];
    let decoder = TransformerConfig::new(50, 50)
        .with_d_model(D_MODEL)
        .with_n_heads(4)
        .with_d_ff(128)
        .with_n_decoder_layers(2)
        .with_max_len(longest)
        .init_decoder(&device)
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
        let before = BYTES.load(Ordering::Relaxed);
        let logits = session.step(&parents, &tokens);
        let allocated = BYTES.load(Ordering::Relaxed) - before;
        assert_eq!(logits.len(), width * 50);
        if LENGTHS.contains(&step) {
            counted.push(allocated);
        }
    }
    counted.try_into().unwrap()
}

// One test, so that no other allocates meanwhile.
#[test]
fn a_step_allocates_as_much_at_1024_tokens_as_at_64() {
    // One layer's keys and values of one target at 256 tokens: what growing by concatenation, or a
    // copy of the past for a beam, would allocate for each layer and row.
    let past = 256 * 2 * D_MODEL * 4;

    // Attention weights are 4 heads of 4 bytes a token, in each of 2 layers.
    let weights = |length: usize| 2 * 4 * 4 * length;
    let [at_64, at_256, at_1024] = bytes(1, |_| vec![0]);
    assert!(at_256 <= at_64 + weights(256), "{at_64}, {at_256}");
    assert!(at_1024 <= at_64 + weights(1024), "{at_64}, {at_1024}");
    assert!(at_256 < past);

    // Beams that branch: besides, where each of 5 targets has its tokens, 4 bytes each, held three
    // times.
    let branch = |step: usize| (0..5).map(|row| (row * step) % 5).collect();
    let places = |length: usize| 3 * 5 * 4 * length;
    let [at_64, at_256, at_1024] = bytes(5, branch);
    assert!(
        at_256 <= at_64 + weights(256) + places(256),
        "{at_64}, {at_256}"
    );
    assert!(
        at_1024 <= at_64 + weights(1024) + places(1024),
        "{at_64}, {at_1024}"
    );
    assert!(at_256 < 5 * past);
}
