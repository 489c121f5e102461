//! `train bench`, and the agreement of the losses with and without fast paths.

use serde_json::Value;

use super::task::train_tiny;
use super::{Folder, all_rejected, json, parsed, run, step_losses};

#[test]
fn a_training_step_is_measured() {
    let folder = &Folder::new();
    let flags = "bench --what train --shape tiny --batch-size 2 --length 3 --steps 20 --json";
    let line = parsed(folder, flags);
    assert_eq!(line["what"], "train");
    assert_eq!(line["shape"], "tiny");
    assert_eq!((&line["batch"], &line["length"]), (&2.into(), &3.into()));
    assert_eq!(line["fused"], true);
    assert_eq!(line["precision"], "f32");
    let times = line["operations_ms"].as_object().unwrap();
    for name in "linear attention residual_norm cross_entropy adam".split(' ') {
        assert!(times[name].as_f64().unwrap() > 0.0, "{line}");
    }
    let number = |name: &str| line[name].as_f64().unwrap();
    // If a time were counted twice, the sum would be larger than the step.
    let sum: f64 = times.values().filter_map(Value::as_f64).sum();
    assert!(sum < 1.5 * number("step_ms"), "{line}");
    let plain = parsed(folder, &format!("{flags} --no-fused"));
    assert_eq!(plain["fused"], false);
    assert_eq!(plain["operations_ms"].as_object().unwrap().len(), 0);
    let parts = ["forward_ms", "backward_ms", "optimizer_ms"].map(number);
    assert!(parts.iter().all(|&part| part > 0.0), "{line}");
    assert!(number("step_ms") > parts[1], "{line}");
    assert!(number("tokens_per_second") > 0.0 && number("gflops") > 0.0);
}

#[test]
fn generation_is_measured_on_every_backend_of_the_build() {
    let folder = &Folder::new();
    let flags = "bench --shape tiny --batch-size 2 --length 3 --beam 2 --all";
    let table = run(folder, flags);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("shape batch beam"), "{table}");
    assert!(
        rows[1..].iter().any(|row| row.ends_with(" flex")),
        "{table}"
    );
}

#[test]
fn impossible_measurements_are_rejected() {
    let folder = &Folder::new();
    let table = "
        --what train --beam 3 | --beam 3
        --precision bf16 | --precision bf16
        --steps 3 | --steps 3
        --layers 0 | --layers | 0
        --batch-size 65536 --length 16384 | --batch-size 65536: must be at most 64
        --length 16384 --shape copy | --length 16384: must be at most 13107
        --batch-size 0 | --batch-size | 0
        --length 99999 | --length | 99999
        --what luck | --what
        --all --backend flex | --backend";
    all_rejected(folder, "bench", table);
}

#[test]
fn fast_paths_compute_what_plain_operations_do() {
    let folder = &Folder::new();
    let losses_of = |run_dir: &str, flags: &str| -> Vec<f64> {
        train_tiny(folder, run_dir, &format!("--dropout 0 {flags}"));
        step_losses(&folder.join(run_dir))
    };
    let fast = losses_of("fast", "");
    let plain = losses_of("plain", "--set execution.fused=false");
    let chunks = losses_of("chunks", "--set execution.loss_chunk=5");
    assert_ne!(fast, plain);
    for other in [&plain, &chunks] {
        assert_eq!(fast.len(), other.len());
        for (fast, other) in fast.iter().zip(other) {
            assert!((fast - other).abs() < 1e-4, "{fast} and {other}");
        }
    }
    // A resumed run keeps the choice of fast paths.
    let steps = fast.len() + 5;
    for run_dir in ["fast", "plain", "chunks"] {
        run(folder, &format!("resume {run_dir} --steps {steps}"));
    }
    let config = json(&folder.join("plain/config.json"));
    assert_eq!(config["execution"]["fused"], false);
}
