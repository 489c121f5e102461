//! Records of runs, and the commands that list and compare them.

use super::*;

/// Checks that seconds of training grow from line to line, and that no rate is out of bounds.
fn check_times(lines: &[serde_json::Value]) -> f64 {
    let mut last = 0.0;
    for line in lines {
        let seconds = line["seconds"].as_f64().unwrap();
        assert!(seconds >= last, "{line}");
        last = seconds;
        if line.get("loss").is_some() {
            assert!(line["tokens_per_second"].as_f64().unwrap() > 0.0, "{line}");
        }
    }
    last
}

#[test]
fn metrics_have_the_time_of_training_over_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let begin = ["--run-dir", "run", "--eval-every", "4"];
    succeed(
        &train(folder.path())
            .args(SMALL)
            .args(begin)
            .output()
            .unwrap(),
    );
    let run = folder.path().join("run");
    let before = metrics(&run);
    assert_eq!(before.len(), 12 + 3);
    let summary = json(&run.join("summary.json"));
    let end = check_times(&before);
    assert!((end - summary["train_seconds"].as_f64().unwrap()).abs() < 1e-3);
    // The rates times the seconds are the tokens.
    let mut tokens = 0.0;
    let mut last = 0.0;
    for group in [1..=4, 5..=8, 9..=10, 11..=12] {
        let of = |step: &u64| {
            before
                .iter()
                .find(|line| line["step"] == *step && line.get("loss").is_some())
                .unwrap()
        };
        let end = of(group.end());
        let seconds = end["seconds"].as_f64().unwrap();
        tokens += end["tokens_per_second"].as_f64().unwrap() * (seconds - last);
        last = seconds;
    }
    let logged: f64 = before
        .iter()
        .filter_map(|line| line["tokens"].as_f64())
        .sum();
    assert!((tokens - logged).abs() < 0.2 * logged, "{tokens}, {logged}");

    let resume = ["resume", "run", "--steps", "15"];
    succeed(&train(folder.path()).args(resume).output().unwrap());
    let after = metrics(&run);
    assert_eq!(after[..before.len()], before[..]);
    assert!(check_times(&after) > end);
}
