//! What a training step costs, counted: allocations and their bytes, which no machine's load
//! changes. Timings are `train bench --what train`'s.
#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Device;
use train::batch::Batch;
use train::config::RunConfig;
use train::fit::Learner;

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's own; counting does not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a step of the default copy task on flex with two threads, their KiB, and the KiB
/// of results that come from `fused`'s own memory, with room for 3 % more. Lower them when a change
/// makes them fewer; do not raise them without a measurement that says why.
const MOST: [usize; 3] = [8_280, 2_456, 17_770];

// One test, so that no other allocates meanwhile.
#[test]
fn a_training_step_allocates_no_more_than_it_did() {
    rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build_global()
        .unwrap();
    let mut config = RunConfig::copy();
    let task = config.resolve().unwrap();
    let device = Device::flex().autodiff();
    let model = config.model.clone().with_dropout(0.1);
    let mut learner = Learner::new(&config, model.init_seeded(0, &device).unwrap()).unwrap();
    let counters = || {
        let [count, bytes] = [&COUNT, &BYTES].map(|counter| counter.load(Ordering::Relaxed));
        [count, bytes, 4 * fused::elements_taken()]
    };
    let mut counted = [0; 3];
    for step in 1..=8 {
        // The same one every time, so that its sizes are.
        let batch = Batch::new(&task.batch(0, 1, config.batch_size), task.pad_id(), &device);
        let before = counters();
        let tokens = batch.tokens;
        let gradients = learner.gradients(learner.loss(batch, tokens));
        learner.update(1e-4, gradients, None, 1.0);
        let after = counters();
        if step > 4 {
            counted = std::array::from_fn(|i| counted[i].max(after[i] - before[i]));
        }
    }
    let counted = [counted[0], counted[1] / 1024, counted[2] / 1024];
    assert!(
        counted
            .iter()
            .zip(MOST)
            .all(|(&counted, most)| counted <= most),
        "a step took {counted:?}: allocations, their KiB and KiB of results, more than {MOST:?}"
    );
}
