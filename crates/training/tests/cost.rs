//! The cost of a training step, counted in allocations and bytes. These counts do not depend on the
//! load of the machine. `train bench --what train` measures times.
#![allow(unsafe_code)] // The counting allocator needs it.

use burn::tensor::Device;
use training::collective::Alone;
use training::config::RunConfig;
use training::data::Batch;
use training::trainer::Learner;

#[path = "../../fused/tests/common/allocations.rs"]
#[allow(dead_code)]
mod allocations;

use allocations::allocated;

/// Maximum cost of a step of the default copy task with dropout, on flex with two threads.
///
/// The three counts are the number of allocations, their size in KiB, and the size in KiB of the
/// large buffers that `fused` takes from its own arena. The limits are 3 % above the measured
/// counts. Lower the limits when a change lowers the counts. Do not raise them without a
/// measurement that gives the reason.
const MOST: [usize; 3] = [8_280, 2_456, 17_770];

// This file has only one test, so that no other test allocates at the same time.
#[test]
fn a_training_step_allocates_no_more_than_it_did() {
    rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build_global()
        .unwrap();
    let mut config = RunConfig::copy();
    let dataset = config.check().unwrap().unwrap();
    let batch_size = config.optimization.batch_size;
    let device = Device::flex().autodiff();
    let model = config.model.clone().with_dropout(0.1);
    let pad_ids = dataset.codec().vocabularies().pad_ids;
    let model = model.init_seeded(0, &device).unwrap();
    let mut learner = Learner::new(&config, model, pad_ids.target).unwrap();
    let counters = || {
        let [count, bytes] = allocated();
        [count, bytes, 4 * fused::elements_taken()]
    };
    let mut counted = [0; 3];
    for step in 1..=24 {
        // Every step has the same batch, so that the tensors of all steps have the same sizes.
        let examples = dataset.batch(0, 1, batch_size);
        let batch = Batch::new(&examples, pad_ids, &device);
        let before = counters();
        let tokens = batch.tokens;
        let gradients = learner.gradients(learner.loss(batch, tokens));
        learner.update(1e-4, gradients, None, 1.0, &Alone);
        let after = counters();
        // The first 20 steps warm up: a thread allocates its scratch memory when it takes part for
        // the first time, which may be late on a busy machine.
        if step > 20 {
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
