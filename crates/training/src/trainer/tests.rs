use std::path::Path;

use burn::tensor::Device;
use transformer::weights;

use super::{Ending, Trainer};
use crate::config::{RunConfig, Schedule};
use crate::data::DataConfig;
use crate::data::synthetic::SequenceConfig;
use crate::run::RunFolder;

fn small() -> RunConfig {
    let mut config = RunConfig::copy();
    config.data = DataConfig::Copy(SequenceConfig {
        symbols: 12,
        min_length: 1,
        max_length: 7,
    });
    config.model = config.model.with_d_model(16).with_d_ff(24);
    config.optimization.schedule = Schedule::noam(1.0, 4);
    config.optimization.steps = 6;
    config.optimization.batch_size = 32;
    config.evaluation.validation_size = 5;
    config.evaluation.test_size = 5;
    config.execution.backend = "flex".into();
    config
}

/// Trains a run. Returns the parameters of the trained model, and the lines of `metrics.jsonl`
/// without times.
fn run(config: &RunConfig) -> (weights::Parameters, Vec<serde_json::Value>) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut config = config.clone();
    let dataset = config.check().unwrap().unwrap();
    let folder = RunFolder::create(Some(&path), &config).unwrap();
    let trainer = Trainer::new(&config, dataset.as_ref(), &Device::flex(), folder).unwrap();
    let Ending::Done(finished) = trainer.train(&mut ()).unwrap() else {
        panic!("the observer () stops no run");
    };
    (weights::parameters(&finished.model), metrics(&path))
}

fn metrics(run: &Path) -> Vec<serde_json::Value> {
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = metrics.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.retain(|name, _| !["seconds", "tokens_per_second"].contains(&name.as_str()));
        line
    });
    lines.collect()
}

fn largest_difference(a: &weights::Parameters, b: &weights::Parameters) -> f64 {
    let pairs = a.iter().flat_map(|(name, data)| {
        let other: Vec<f64> = b[name].iter().collect();
        data.iter::<f64>().zip(other).collect::<Vec<_>>()
    });
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

#[test]
fn accumulated_batches_are_one_large_batch() {
    // Sequences differ in length, so small batches have different numbers of tokens. A large
    // epsilon keeps Adam from amplifying the rounding errors of gradients near 0.
    let mut large = small();
    large.optimization.label_smoothing = 0.1;
    large.optimization.optimizer.epsilon = 1e-3;
    let mut parts = large.clone();
    parts.optimization.batch_size = 8;
    parts.optimization.accumulate = 4;
    let ((one, one_lines), (other, other_lines)) = (run(&large), run(&parts));
    let difference = largest_difference(&one, &other);
    assert!(difference < 1e-6, "{difference}");
    for (a, b) in one_lines.iter().zip(&other_lines) {
        for name in ["loss", "gradient_norm"] {
            let [a, b] = [a, b].map(|line| line[name].as_f64().unwrap());
            assert!(
                (a - b).abs() < 2e-6 * a.abs().max(1.0),
                "{name}: {a} and {b}"
            );
        }
        assert_eq!(a["tokens"], b["tokens"]);
    }
    // Without accumulation, batches of a quarter of the size give other parameters.
    parts.optimization.accumulate = 1;
    assert!(largest_difference(&one, &run(&parts).0) > 1e-4);
}

#[test]
fn a_trained_run_keeps_its_setting_of_the_fast_paths() {
    let mut config = small();
    config.execution.fused = false;
    let parent = tempfile::tempdir().unwrap();
    let dataset = config.check().unwrap().unwrap();
    let folder = RunFolder::create(Some(&parent.path().join("run")), &config).unwrap();
    let trainer = Trainer::new(&config, dataset.as_ref(), &Device::flex(), folder).unwrap();
    let ending = trainer.train(&mut ()).unwrap();
    assert!(!fused::has_fast_paths());
    drop(ending);
    assert!(fused::has_fast_paths());
}

#[test]
fn gradient_checkpointing_changes_only_rounding() {
    let kept = small();
    let mut again = kept.clone();
    again.execution.gradient_checkpointing = true;
    let difference = largest_difference(&run(&kept).0, &run(&again).0);
    assert!(difference < 1e-6, "{difference}");
}

#[test]
fn the_checkpoint_has_the_moving_average() {
    let plain = small();
    let mut averaged = plain.clone();
    averaged.optimization.ema = Some(0.999);
    let (last, plain_lines) = run(&plain);
    let (average, average_lines) = run(&averaged);
    // The average does not change the training itself.
    assert_eq!(plain_lines, average_lines);
    assert!(largest_difference(&last, &average) > 1e-4);
}

#[test]
fn the_logged_gradient_norm_is_that_before_clipping() {
    let plain = small();
    let mut clipped = plain.clone();
    clipped.optimization.optimizer.clip_norm = Some(1e-4);
    let (plain, clipped) = (run(&plain).1, run(&clipped).1);
    assert_eq!(plain[0], clipped[0]);
    assert_ne!(plain[5]["loss"], clipped[5]["loss"]);
}
