//! Trains on an invented language, and checks with BLEU that the model learns to translate it.

use assert_cmd::Command;
use serde_json::Value;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/corpus");

#[test]
fn a_language_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    let train = |line: &str| {
        // The paths of a clone may contain blanks.
        let words = line.split(' ').map(|word| word.replace("FIXTURE", FIXTURE));
        let mut command = Command::cargo_bin("train").unwrap();
        let output = command.current_dir(folder.path()).args(words).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    train(
        "fit --task text --preset tiny --run-dir run \
         --train-source FIXTURE/train.source.gz --train-target FIXTURE/train.target.gz \
         --valid-source FIXTURE/valid.source.gz --valid-target FIXTURE/valid.target.gz",
    );
    for beam in [1, 5] {
        let evaluation = train(&format!(
            "eval run --json --beam {beam} \
             --source FIXTURE/test.source.gz --target FIXTURE/test.target.gz"
        ));
        let evaluation: Value = serde_json::from_str(&evaluation).unwrap();
        let bleu = evaluation["bleu"].as_f64().unwrap();
        assert!(bleu >= 90.0, "{evaluation}");
    }
}
