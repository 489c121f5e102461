//! `train import`, `train export` and `train inspect`.

use std::path::Path;

use serde_json::Value;

use super::task::{TINY, run};
use super::{refused, succeed, train};

/// Returns the path of a file that PyTorch wrote, from the fixtures of the crate `transformer`.
fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../transformer/tests/fixtures/layouts")
        .join(name)
        .to_str()
        .unwrap()
        .into()
}

fn evaluation(folder: &Path, run_dir: &str) -> Value {
    let line = run(folder, &format!("eval {run_dir} --json"));
    let mut line: Value = serde_json::from_str(&line).unwrap();
    for differs in ["seconds", "step"] {
        line.as_object_mut().unwrap().remove(differs);
    }
    line
}

#[test]
fn a_trained_model_survives_export_and_import() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let task = "--symbols 9 --max-length 5";
    run(folder, &format!("fit {TINY} {task} --run-dir trained"));
    let trained = evaluation(folder, "trained");
    for (layout, flags) in [
        ("torch-nn", "--heads 2 --norm pre"),
        ("paper", "--heads 2 --norm pre"),
        ("labml", "--heads 2"),
        ("native", ""),
    ] {
        let file = format!("{layout}.safetensors");
        let line = run(
            folder,
            &format!("export trained --layout {layout} --output {file}"),
        );
        assert!(
            line.contains(&format!("tensors in the layout {layout}")),
            "{line}"
        );
        let to = format!("--run-dir {layout} {task} --dropout 0");
        run(folder, &format!("import {file} {flags} {to}"));
        assert_eq!(evaluation(folder, layout), trained, "{layout}");
        let listed = run(folder, &format!("runs {layout} --json"));
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["status"], "stopped");
        assert_eq!(listed["reason"], "imported, not trained yet");
        // An export of the imported model has the same bytes as the imported file.
        run(
            folder,
            &format!("export {layout} --layout {layout} --output again"),
        );
        let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
        assert_eq!(bytes("again"), bytes(&file), "{layout}");
        std::fs::remove_file(folder.join("again")).unwrap();
    }
    // Training continues from the imported weights.
    run(folder, "resume torch-nn --steps 3");
    let further = evaluation(folder, "torch-nn");
    assert_ne!(further["loss"], trained["loss"]);
}

#[test]
fn a_pytorch_file_is_converted_to_the_native_layout() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let from = fixture("paper_checkpoint.pt");
    let import = format!("import {from} --heads 3 --norm pre --activation gelu");
    let line = run(folder, &format!("{import} --output own.safetensors"));
    assert!(line.starts_with("own.safetensors: "), "{line}");
    let arguments: Vec<&str> = import
        .split(' ')
        .chain(["--output", "own.safetensors"])
        .collect();
    refused(
        folder,
        &arguments,
        &["--output own.safetensors", "exists already"],
    );
    run(
        folder,
        &format!("{import} --output own.safetensors --force"),
    );
    // The header of the file has the model's configuration.
    let half = "import own.safetensors --output half.safetensors --dtype bf16";
    run(folder, half);
    let report = run(folder, "inspect half.safetensors --json");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["layout"], "native");
    assert_eq!(report["tensors"][0]["dtype"], "bf16");
    let config: Value =
        serde_json::from_str(report["metadata"]["config"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&config["n_heads"], &config["activation"]),
        (&3.into(), &"gelu".into())
    );
    let line = run(
        folder,
        "export own.safetensors --layout paper --output back.safetensors",
    );
    assert!(line.contains("68 tensors in the layout paper"), "{line}");
}

#[test]
fn inspect_lists_the_contents_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let text = run(
        folder.path(),
        &format!("inspect {}", fixture("paper_checkpoint.pt")),
    );
    for expected in [
        "model.module.decoder.layers.0.self_attn.w_q.weight",
        "[12, 12]",
        "layout paper: a whole model, in the entry model, each name after module.",
        "beside the model (6): optimizer.state.0.exp_avg",
        "nothing is missing, nothing is left over",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let pair = fixture("paper_pair.pt");
    let text = run(folder.path(), &format!("inspect {pair}"));
    let expected = "weights in several entries, choose one with --entry: student, teacher";
    assert!(text.contains(expected), "{text}");
    let text = run(folder.path(), &format!("inspect {pair} --entry teacher"));
    assert!(
        text.contains("layout paper: a whole model, in the entry teacher"),
        "{text}"
    );
    let text = run(
        folder.path(),
        &format!("inspect {}", fixture("evil_system.pt")),
    );
    assert!(
        text.contains("objects other than tensors, not executed (1): posix.system at \"other\""),
        "{text}"
    );
    assert!(text.contains("no known layout has these names"), "{text}");
}

#[test]
fn hugging_faces_configuration_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::copy(
        fixture("marian.safetensors"),
        folder.join("model.safetensors"),
    )
    .unwrap();
    let config = r#"{"model_type": "marian", "encoder_attention_heads": 3, "decoder_attention_heads": 3,
        "activation_function": "gelu", "pad_token_id": 5, "max_position_embeddings": 16,
        "scale_embedding": true, "dropout": 0.0, "d_model": 12, "encoder_layers": 2, "decoder_layers": 1,
        "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "vocab_size": 19}"#;
    std::fs::write(folder.join("config.json"), config).unwrap();
    run(folder, "import model.safetensors --output own.safetensors");
    let report = run(folder, "inspect own.safetensors");
    for expected in [r#""n_heads":3"#, r#""activation":"gelu""#, r#""pad_id":5"#] {
        assert!(report.contains(expected), "{report}");
    }
    for (said, wrong, expected) in [
        (
            r#""d_model": 12"#,
            r#""d_model": 13"#,
            "has weights with d_model 12, but config.json has 13",
        ),
        (
            r#""dropout": 0.0"#,
            r#""dropout": 0.0, "normalize_before": true"#,
            "with normalize_before true, but only false is supported",
        ),
    ] {
        std::fs::write(folder.join("config.json"), config.replace(said, wrong)).unwrap();
        let arguments = [
            "import",
            "model.safetensors",
            "--output",
            "more.safetensors",
        ];
        refused(folder, &arguments, &["config.json", expected]);
    }
    let other = config.replacen("3", "2", 1);
    std::fs::write(folder.join("config.json"), other).unwrap();
    let arguments = [
        "import",
        "model.safetensors",
        "--output",
        "more.safetensors",
    ];
    refused(
        folder,
        &arguments,
        &["decoder_attention_heads 3, but only 2 is supported"],
    );
}

#[test]
fn unusable_weights_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::write(
        folder.join("words"),
        "It is no file of weights, but it is long enough.",
    )
    .unwrap();
    let paper = fixture("paper.pt");
    for (arguments, expected) in [
        ("import empty --output x", "FILE empty: is empty"),
        (
            "import words --output x",
            "FILE words: is neither a PyTorch checkpoint nor",
        ),
        ("import nowhere --output x", "FILE nowhere: does not exist"),
        ("inspect .", "FILE .: is a folder"),
        ("import PAPER", "--output: is missing"),
        (
            "import PAPER --output x",
            "how many attention heads the model has; say it with --heads",
        ),
        (
            "import PAPER --heads 5 --output x",
            "--heads 5: must be a divisor of the width (12)",
        ),
        (
            "import PAPER --heads 3 --layout marian --output x",
            "none of the names by which the layout marian",
        ),
        ("import PAPER --heads 3 --output x --rename a", "--rename"),
        (
            "import PAPER --heads 3 --output x --rename a=b",
            "has no tensor a",
        ),
        (
            "import PAPER --heads 3 --output x --symbols 3",
            "--symbols 3: needs --run-dir",
        ),
        (
            "import PAPER --heads 3 --output no/x",
            "--output no/x: is in a folder that does not exist",
        ),
        (
            "import PAPER --heads 3 --output .",
            "--output .: is a folder",
        ),
        (
            "import PAPER --heads 3 --run-dir r",
            "with 36 tokens, but the model has 17 and 19",
        ),
        (
            "import PAPER --heads 3 --positions rotary --output x",
            "sinusoidal positions, not rotary ones",
        ),
        ("export empty --layout paper --output x", "is empty"),
        (
            "export nowhere --layout paper --output x",
            "RUN nowhere: does not exist",
        ),
    ] {
        let arguments = arguments.replace("PAPER", &paper);
        let arguments: Vec<&str> = arguments.split(' ').collect();
        refused(folder, &arguments, &[expected]);
    }
    let evil = fixture("evil_namespace.pt");
    let arguments = ["import", &evil, "--heads", "3", "--output", "x"];
    refused(
        folder,
        &arguments,
        &["refers to argparse.Namespace at args", "--allow-unused"],
    );
    let names: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let mut command = train(folder);
    command.args(arguments).arg("--allow-unused");
    succeed(&command.output().unwrap());

    run(
        folder,
        &format!("fit {TINY} --symbols 9 --max-length 5 --activation swiglu --run-dir gated"),
    );
    let arguments = ["export", "gated", "--layout", "torch-nn", "--output", "y"];
    let expected = "--layout torch-nn: cannot represent the model, which has --activation swiglu";
    refused(folder, &arguments, &[expected]);
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let name = r"a\u001b[31m\nnothing is missing, nothing is left over";
    let header = format!(r#"{{"{name}":{{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1, 2]);
    std::fs::write(folder.path().join("x.safetensors"), bytes).unwrap();
    let text = run(folder.path(), "inspect x.safetensors");
    let expected = r"a\u{1b}[31m\nnothing is missing, nothing is left over  f8_e4m3  [2]";
    assert!(text.starts_with(expected), "{text}");
    let arguments = ["import", "x.safetensors", "--heads", "1", "--output", "y"];
    refused(folder.path(), &arguments, &[r"a\u{1b}[31m\nnothing"]);
}

#[test]
fn exported_tensors_can_be_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let from = fixture("torch_nn.safetensors");
    run(folder, &format!("import {from} --heads 3 --output own"));
    let export = "export own --layout torch-nn --output theirs --no-positions";
    run(
        folder,
        &format!("{export} --rename generator.weight=head.weight"),
    );
    let text = run(folder, "inspect theirs");
    assert!(
        text.contains("head.weight") && !text.contains("generator.weight"),
        "{text}"
    );
    assert!(text.contains("left over (1): head.weight"), "{text}");
    let again = format!("{export} --force --rename generator.weight=generator.bias");
    let arguments: Vec<&str> = again.split(' ').collect();
    refused(folder, &arguments, &["gives a tensor the name of another"]);
    let again = format!("{export} --force --rename head.weight=x");
    let arguments: Vec<&str> = again.split(' ').collect();
    refused(
        folder,
        &arguments,
        &["renames a tensor that the layout does not have"],
    );
    let again = format!("{export} --force --checkpoint best");
    let arguments: Vec<&str> = again.split(' ').collect();
    refused(
        folder,
        &arguments,
        &["--checkpoint best: needs the folder of a run"],
    );
}

#[test]
fn int8_weights_are_almost_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(
        folder,
        &format!("fit {TINY} --symbols 9 --max-length 5 --run-dir trained"),
    );
    let exact = evaluation(folder, "trained");
    let rounded = evaluation(folder, "trained --int8");
    let loss = |line: &Value| line["loss"].as_f64().unwrap();
    assert_ne!(loss(&exact), loss(&rounded));
    assert!(
        (loss(&exact) - loss(&rounded)).abs() < 0.05,
        "{exact} {rounded}"
    );
    let line = "generate trained --int8 --beam 2 --input lines";
    std::fs::write(folder.join("lines"), "1 2 3\n4\n").unwrap();
    assert_eq!(run(folder, line).lines().count(), 2);
    let arguments = ["eval", "trained", "--int8", "--eval-lengths", "1..3"];
    refused(folder, &arguments, &["--int8", "--eval-lengths"]);
}

#[test]
fn int8_files_give_what_the_flag_gives() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let task = "--symbols 9 --max-length 5";
    run(folder, &format!("fit {TINY} {task} --run-dir trained"));
    let export = "export trained --layout native --dtype int8 --output small.safetensors";
    run(folder, export);
    assert!(run(folder, "inspect small.safetensors").contains("int8"));
    let import = "import small.safetensors --run-dir small";
    run(folder, &format!("{import} {task}"));
    let small = evaluation(folder, "small");
    assert_eq!(small, evaluation(folder, "trained --int8"));
    assert_eq!(small, evaluation(folder, "small --int8"));
    assert_ne!(small, evaluation(folder, "trained"));

    // If the quantised run is exported again, the file has the same bytes as the first export.
    run(
        folder,
        "export small --layout native --output again.safetensors",
    );
    let read = |name| std::fs::read(folder.join(name)).unwrap();
    assert_eq!(read("small.safetensors"), read("again.safetensors"));
    // A format given by `--dtype` also applies to quantised matrices.
    for (flags, expected) in [("", "int8"), (" --dtype f32", "f32")] {
        let line = format!("import small.safetensors --output again.safetensors --force{flags}");
        run(folder, &line);
        let contents = run(folder, "inspect again.safetensors");
        assert_eq!(contents.contains("int8"), expected == "int8", "{contents}");
    }
    let renamed = "export trained --layout native --dtype int8 --rename a=b --output b.safetensors";
    let arguments: Vec<_> = renamed.split(' ').collect();
    refused(folder, &arguments, &["--dtype int8", "--rename"]);
    let other = "export trained --layout paper --dtype int8 --output other.safetensors";
    let arguments: Vec<&str> = other.split(' ').collect();
    refused(folder, &arguments, &["--dtype int8", "--layout native"]);
}
