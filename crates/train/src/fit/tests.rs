use super::*;
use transformer::weights;

use crate::schedule::Schedule;
use crate::task::{SequenceConfig, TaskConfig};

fn small() -> RunConfig {
    let mut config = RunConfig::copy();
    config.task = TaskConfig::Copy(SequenceConfig {
        symbols: 12,
        min_length: 1,
        max_length: 7,
    });
    config.model = config.model.with_d_model(16).with_d_ff(24);
    config.schedule = Schedule::Noam {
        factor: 1.0,
        warmup: 4,
    };
    config.steps = 6;
    config.batch_size = 32;
    config.eval_size = 5;
    config.test_size = 5;
    config.backend = "flex".into();
    config
}

/// The parameters after the last step, and every line of `metrics.jsonl`.
fn run(config: &RunConfig) -> (weights::Parameters, Vec<serde_json::Value>) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut config = config.clone();
    let task = config.resolve().unwrap();
    let folder = RunFolder::create(Some(&path), &config).unwrap();
    let ending = fit(
        &config,
        task.as_ref(),
        &Device::flex(),
        folder,
        None,
        || Box::new(Nobody),
    );
    let Ending::Done(outcome) = ending.unwrap() else {
        panic!("nobody stopped it");
    };
    let metrics = std::fs::read_to_string(path.join("metrics.jsonl")).unwrap();
    let lines = metrics.lines().map(|l| serde_json::from_str(l).unwrap());
    (weights::parameters(&outcome.model), lines.collect())
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
    // Sequences differ in length, so that small batches have different numbers of tokens; a large
    // epsilon, so that Adam does not blow up the rounding of gradients near 0.
    let mut large = small();
    large.label_smoothing = 0.1;
    large.optimizer.epsilon = 1e-3;
    let mut parts = large.clone();
    (parts.batch_size, parts.accumulate) = (8, 4);
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
    // It is no triviality: a quarter of the batch ends elsewhere.
    parts.accumulate = 1;
    assert!(largest_difference(&one, &run(&parts).0) > 1e-4);
}

#[test]
fn gradient_checkpointing_changes_no_number_that_matters() {
    let kept = small();
    let mut again = kept.clone();
    again.gradient_checkpointing = true;
    let difference = largest_difference(&run(&kept).0, &run(&again).0);
    assert!(difference < 1e-6, "{difference}");
}

#[test]
fn the_moving_average_is_what_is_evaluated() {
    let plain = small();
    let mut averaged = plain.clone();
    averaged.ema = Some(0.999);
    let (last, plain_lines) = run(&plain);
    let (average, average_lines) = run(&averaged);
    // Training itself is the same.
    assert_eq!(plain_lines, average_lines);
    assert!(largest_difference(&last, &average) > 1e-4);
}

#[test]
fn clipping_shows_the_length_before_it() {
    let plain = small();
    let mut clipped = plain.clone();
    clipped.optimizer.clip_norm = Some(1e-4);
    let (plain, clipped) = (run(&plain).1, run(&clipped).1);
    assert_eq!(plain[0], clipped[0]);
    assert_ne!(plain[5]["loss"], clipped[5]["loss"]);
}
