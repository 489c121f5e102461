//! `train import`, `train export` and `train inspect`.

use std::path::Path;

use serde_json::Value;

use super::task::train_tiny;
use super::{Folder, all_rejected, assert_has, notes, parsed, rejected, rows, run};

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
    let mut line = parsed(folder, &format!("eval {run_dir} --json"));
    for differs in ["seconds", "step"] {
        line.as_object_mut().unwrap().remove(differs);
    }
    line
}

#[test]
fn a_trained_model_survives_export_and_import() {
    let folder = &Folder::new();
    let task = "--symbols 9 --max-length 5";
    train_tiny(folder, "trained", "");
    let trained = evaluation(folder, "trained");
    for (layout, flags) in [
        ("torch-nn", "--heads 2 --norm pre"),
        ("paper", "--heads 2 --norm pre"),
        ("labml", "--heads 2"),
        ("native", ""),
    ] {
        let file = format!("{layout}.safetensors");
        let line = format!("export trained --layout {layout} --output {file}");
        run(folder, &line);
        let to = format!("--run-dir {layout} {task} --dropout 0");
        run(folder, &format!("import {file} {flags} {to}"));
        assert_eq!(evaluation(folder, layout), trained, "{layout}");
        let listed = parsed(folder, &format!("runs {layout} --json"));
        assert_eq!(listed["status"], "imported");
        // An export of the imported model has the same bytes as the imported file.
        let line = format!("export {layout} --layout {layout} --output again");
        run(folder, &line);
        let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
        assert_eq!(bytes("again"), bytes(&file), "{layout}");
        std::fs::remove_file(folder.join("again")).unwrap();
    }
    // Runs that began with the same weights may be seeds of one, wherever the weights come from.
    train_tiny(folder, "other", "--seed 1");
    run(folder, "export other --output other.safetensors");
    let import = "import other.safetensors --run-dir imported";
    run(folder, &format!("{import} {task} --dropout 0"));
    for name in ["paper", "imported"] {
        let config = folder.join(name).join("config.json");
        let seed = std::fs::read_to_string(&config).unwrap();
        std::fs::write(config, seed.replacen("\"seed\": 0", "\"seed\": 1", 1)).unwrap();
    }
    let one = parsed(folder, "compare native paper --json");
    assert_eq!(one["groups"].as_array().unwrap().len(), 1, "{one}");
    let two = parsed(folder, "compare native imported --json");
    let from = &two["settings"][0];
    let file = from["values"][1].as_str().unwrap();
    assert_eq!(from["path"], "from");
    assert_has(file, &["other.safetensors"]);
    // Training continues from the imported weights.
    run(folder, "resume torch-nn --steps 3");
    let further = evaluation(folder, "torch-nn");
    assert_ne!(further["loss"], trained["loss"]);
}

#[test]
fn a_pytorch_file_is_converted_to_the_native_layout() {
    let folder = &Folder::new();
    let from = fixture("paper_checkpoint.pt");
    let import = format!("import {from} --heads 3 --norm pre --activation gelu");
    run(folder, &format!("{import} --output own.safetensors"));
    let again = format!("{import} --output own.safetensors");
    rejected(folder, &again, &["--output own.safetensors"]);
    let command = format!("{import} --output own.safetensors --force");
    run(folder, &command);
    // The header of the file has the model's configuration.
    let half = "import own.safetensors --output half.safetensors --dtype bf16";
    run(folder, half);
    let report = parsed(folder, "inspect half.safetensors --json");
    assert_eq!(report["layout"], "native");
    assert_eq!(report["tensors"][0]["dtype"], "bf16");
    let config: Value =
        serde_json::from_str(report["metadata"]["encoder"].as_str().unwrap()).unwrap();
    let layer = &config["layer"];
    assert_eq!(layer["attention"]["n_heads"], 3);
    assert_eq!(layer["feed_forward"]["activation"], "gelu");
    // A file with infinite elements could not be read again.
    let mut bytes = std::fs::read(folder.join("own.safetensors")).unwrap();
    let last = bytes.len() - size_of::<f32>();
    bytes[last..].copy_from_slice(&1e6f32.to_le_bytes());
    std::fs::write(folder.join("large.safetensors"), bytes).unwrap();
    let half = "import large.safetensors --output large_half.safetensors --dtype f16 -q";
    rejected(folder, half, &["--dtype f16: makes 1 element of "]);
    assert!(!folder.join("large_half.safetensors").exists());
    let line = run(
        folder,
        "export own.safetensors --layout paper --output back.safetensors",
    );
    assert!(line.contains("68 tensors in the layout paper"), "{line}");
}

#[test]
fn inspect_lists_the_contents_of_files() {
    let folder = &Folder::new();
    let table = "
        paper_checkpoint.pt | model.module.decoder.layers.0.self_attn.w_q.weight | [12, 12] | layout paper
        paper_pair.pt | --entry | student | teacher
        paper_pair.pt --entry teacher | layout paper | entry teacher | [12, 12]
        evil_system.pt | posix.system | not executed | other";
    for (line, parts) in rows(table) {
        let text = run(folder, &format!("inspect {}{line}", fixture("")));
        assert_has(&text, &parts);
    }
}

#[test]
fn nothing_of_a_folder_is_left_out_or_replaced_without_a_word() {
    let folder = &Folder::new();
    let whisper = fixture("../models/whisper");
    let line = format!("import {whisper} --output own.safetensors");
    let left_out = "4 tensors of no stack left out: encoder.conv1.bias, ..";
    assert_has(&notes(&super::output(folder, &line)), &[left_out]);
    // A flag does not contradict config.json without a word, either.
    let t5 = super::pretrained::family("t5");
    let replaced = "warning: settings of config.json are replaced by those of the flags\n";
    for to in ["--output t5.safetensors", "--run-dir t5"] {
        let line = format!("import {t5} --norm pre --activation gelu {to}");
        assert_has(&notes(&super::output(folder, &line)), &[replaced]);
    }
}

#[test]
fn hugging_faces_configuration_is_read() {
    let folder = &Folder::new();
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
    let report = run(folder, "inspect own.safetensors --json").replace('\\', "");
    let settings = [r#""n_heads":3"#, r#""activation":"gelu""#, r#""pad_id":5"#];
    assert_has(&report, &settings);
    let import = "import model.safetensors --output more.safetensors";
    let table = r#"
        "d_model": 12 | "d_model": 13 | d_model 12
        "dropout": 0.0 | "dropout": 0.0, "normalize_before": true | normalize_before
        encoder_attention_heads": 3 | encoder_attention_heads": 2 | attention_heads 3"#;
    for (said, row) in rows(table) {
        let wrong = config.replacen(said, row[0], 1);
        std::fs::write(folder.join("config.json"), wrong).unwrap();
        rejected(folder, import, &["config.json", row[1]]);
    }
}

#[test]
fn unusable_weights_are_rejected() {
    let folder = &Folder::new();
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::write(
        folder.join("words"),
        "It is no file of weights, but it is long enough.",
    )
    .unwrap();
    let table = "
        import empty --output x | FILE empty
        import words --output x | FILE words
        import nowhere --output x | FILE nowhere
        inspect . | FILE .
        import PAPER | --output
        import PAPER --output x | --heads
        import PAPER --heads 5 --output x | --heads 5
        import PAPER --heads 3 --layout marian --output x | layout marian
        import PAPER --heads 3 --output x --rename a | --rename
        import PAPER --heads 3 --output x --rename a=b | has no tensor a
        import PAPER --heads 3 --output x --symbols 3 | --symbols 3
        import PAPER --heads 3 --output no/x | --output no/x
        import PAPER --heads 3 --output . | --output .
        import PAPER --heads 3 --run-dir r | the model has 17
        import PAPER --heads 3 --positions rotary --output x | sinusoidal
        export empty --layout paper --output x | empty
        export nowhere --layout paper --output x | RUN nowhere";
    all_rejected(folder, "", &table.replace("PAPER", &fixture("paper.pt")));
    let evil = fixture("evil_namespace.pt");
    let import = format!("import {evil} --heads 3 --output x");
    rejected(folder, &import, &["argparse.Namespace", "--allow-unused"]);
    let names: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    run(folder, &format!("{import} --allow-unused"));

    train_tiny(folder, "gated", "--activation swiglu");
    let export = "export gated --layout torch-nn --output y";
    rejected(
        folder,
        export,
        &["--layout torch-nn", "--activation swiglu"],
    );
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let folder = &Folder::new();
    let name = r"a\u001b[31m\nnothing is missing, nothing is left over";
    let header = format!(r#"{{"{name}":{{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1, 2]);
    std::fs::write(folder.join("x.safetensors"), bytes).unwrap();
    let text = run(folder, "inspect x.safetensors");
    let expected = r"a\u001b[31m\u000anothing is missing, nothing is left over  f8_e4m3  [2]";
    assert!(text.starts_with(expected), "{text}");
    let import = "import x.safetensors --heads 1 --output y";
    rejected(folder, import, &[r"a\u001b[31m\u000anothing"]);
}

#[test]
fn int8_weights_are_almost_as_good() {
    let folder = &Folder::new();
    train_tiny(folder, "trained", "");
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
    rejected(
        folder,
        "eval trained --int8 --eval-lengths 1..3",
        &["--int8"],
    );
}

#[test]
fn int8_files_give_what_the_flag_gives() {
    let folder = &Folder::new();
    train_tiny(folder, "trained", "");
    let export = "export trained --dtype int8 --output small.safetensors";
    run(folder, export);
    assert!(run(folder, "inspect small.safetensors").contains("int8"));
    let import = "import small.safetensors --run-dir small --symbols 9 --max-length 5";
    run(folder, import);
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
    let table = "
        --layout paper --output other.safetensors | --dtype int8";
    all_rejected(folder, "export trained --dtype int8", table);
}
