//! What attention allocates, counted: it grows with the length, not with its square.
#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Device, Tensor};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's own; counting does not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that are held at once in a forward and a backward pass.
fn most_held(length: usize) -> usize {
    fused::free_buffers();
    let device = Device::flex().autodiff();
    let packed = Tensor::<4>::ones([1, length, 3 * 4, 16], &device).require_grad();
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let y = fused::self_attention(&packed, None, 0.1).expect("flex has it");
    let gradients = y.sum().backward();
    assert!(packed.grad(&gradients).is_some());
    MOST.load(Ordering::Relaxed) - before
}

// One test, so that no other allocates meanwhile.
#[test]
fn attention_of_twice_the_length_holds_twice_as_much() {
    most_held(256);
    let [short, long] = [512, 2048].map(most_held);
    assert!(
        long < 5 * short,
        "{short} bytes, and {long} at four times the length"
    );
    // One matrix of weights of one head alone has more.
    let square = 2048 * 2048 * 4;
    assert!(
        long < square,
        "{long} bytes, but a matrix of weights has {square}"
    );
}
