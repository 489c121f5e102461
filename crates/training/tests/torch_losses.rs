//! A hundred training steps have the same losses as PyTorch's steps with the same batches and
//! initial weights.
//!
//! `fixtures/torch_losses/losses.json` has the losses of PyTorch. The script `torch_losses.py`
//! beside it computed them with `torch.nn.Transformer` and `torch.optim.Adam`, from files that this
//! crate's `examples/torch_losses.rs` wrote.

use std::fs;

use burn::tensor::Device;
use serde_json::Value;
use training::run::RunFolder;
use training::trainer::{Ending, Trainer};

#[path = "fixtures/torch_losses/small.rs"]
mod small;

use small::{STEPS, small};

#[test]
fn losses_equal_pytorchs() {
    let folder = tempfile::tempdir().unwrap();
    let (config, dataset) = small(folder.path());
    let run = folder.path().join("run");
    let run_folder = RunFolder::create(Some(&run), &config).unwrap();
    let device = Device::flex();
    let trainer = Trainer::new(&config, dataset.as_ref(), &device, run_folder).unwrap();
    let ending = trainer.train(&mut ()).unwrap();
    assert!(matches!(ending, Ending::Done(_)));
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let ours = metrics.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line.get("loss").map(|loss| loss.as_f64().unwrap())
    });
    let theirs: Vec<f64> =
        serde_json::from_str(include_str!("fixtures/torch_losses/losses.json")).unwrap();
    let mut steps = 0;
    for (step, (ours, theirs)) in ours.zip(&theirs).enumerate() {
        let difference = (ours - theirs).abs();
        assert!(
            difference < 1e-3,
            "step {}: {ours}, but PyTorch has {theirs}",
            step + 1
        );
        steps += 1;
    }
    assert_eq!((steps, theirs.len()), (STEPS, STEPS));
    // The loss must fall, so that equal losses mean something.
    assert!(theirs[STEPS - 1] < theirs[0] - 1.0);
}
