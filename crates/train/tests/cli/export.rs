//! `train export`: the Python module and the command that it prints, and the file of the web demo.

use super::task::{TINY, run};
use super::{refused, succeed, text, train};

#[test]
fn export_prints_the_module_that_the_file_fits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sizes = "--symbols 9 --max-length 5";
    run(
        folder,
        &format!("fit {TINY} {sizes} --dropout 0.2 --run-dir pre"),
    );
    run(
        folder,
        &format!(
            "fit {TINY} {sizes} --norm post --activation gelu --weight-tying all --run-dir tied"
        ),
    );
    let call = "nn.Transformer(d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, \
                dim_feedforward=16";
    for (flags, parts) in [
        (
            "pre --layout torch-nn",
            &[
                call,
                "dropout=0.2, activation=\"relu\", layer_norm_eps=1e-5, batch_first=True, norm_first=True)",
                "nn.Embedding(13, 16)",
                "nn.Linear(16, 13)",
                "model.load_state_dict(load_file(\"x\"), strict=False)",
            ][..],
        ),
        (
            "tied --layout torch-nn --no-positions",
            &[
                call,
                "activation=\"gelu\", layer_norm_eps=1e-5, batch_first=True, norm_first=False)",
                "model[\"generator\"].weight = model[\"tgt_tok_emb\"]",
                "model[\"src_tok_emb\"][\"embedding\"].weight = model[\"tgt_tok_emb\"]",
                "model.load_state_dict(load_file(\"x\"))",
            ],
        ),
        (
            "pre --layout labml",
            &["MultiHeadAttention(2, 16, 0.2)", "Generator(13, 16)"],
        ),
        ("tied --layout paper", &["n_heads=2", "pre_norm=False"]),
    ] {
        let printed = run(folder, &format!("export {flags} --output x --force"));
        assert!(printed.contains("tensors in the layout"), "{printed}");
        for part in parts {
            assert!(printed.contains(part), "{flags}: {printed}\nhas no {part}");
        }
    }
    let expected =
        "the model of pre: has settings that no family of Hugging Face has; with --layout t5";
    refused(folder, &["export", "pre", "--folder", "y"], &[expected]);
    let native = run(folder, "export pre --layout native --output x --force");
    assert_eq!(native.lines().count(), 1, "{native}");
    for (run, layout, expected) in [
        (
            "pre",
            "marian --output y",
            "--norm pre; --layout native can",
        ),
        (
            "tied",
            "labml --output y",
            "--norm post; --layout native can",
        ),
        (
            "pre",
            "marian --folder y",
            "--norm pre; no family of Hugging Face can, but --layout native, without --folder",
        ),
    ] {
        let mut arguments = vec!["export", run, "--layout"];
        arguments.extend(layout.split(' '));
        let layout = arguments[3];
        let subject = format!("--layout {layout}: cannot represent the model, which has");
        refused(folder, &arguments, &[&subject[..], expected]);
    }
}

#[test]
fn export_prints_the_command_that_imports_the_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sizes = "--symbols 9 --max-length 5";
    let settings = "--norm pre --activation gelu --dropout 0.2";
    run(
        folder,
        &format!("fit {TINY} {sizes} {settings} --run-dir pre"),
    );
    let export = "export pre --layout torch-nn --output x.safetensors".split(' ');
    let output = train(folder).args(export).output().unwrap();
    succeed(&output);
    let stderr = text(&output.stderr);
    let mut lines = stderr.lines();
    let import = lines
        .find_map(|line| line.strip_prefix("  train import "))
        .unwrap();
    run(folder, &format!("import {import} --run-dir again {sizes}"));
    let eval = |run_folder: &str| {
        let scores = run(folder, &format!("eval {run_folder} --json"));
        let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
        (scores["loss"].clone(), scores["exact_match"].clone())
    };
    assert_eq!(eval("again"), eval("pre"));
    let config = super::json(&folder.join("again/config.json"));
    assert_eq!(config["model"]["dropout"], 0.2);
}

#[test]
fn export_writes_a_run_as_one_file_for_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(
        folder,
        &format!("fit {TINY} --task reverse --symbols 9 --max-length 5 --run-dir r"),
    );
    let printed = run(folder, "export --web r --output page.safetensors");
    assert!(
        printed.starts_with("page.safetensors: a model of the task reverse for the page demo, "),
        "{printed}"
    );
    // The web page of the demo reads the file with the same function.
    let bytes = std::fs::read(folder.join("page.safetensors")).unwrap();
    let device = burn::tensor::Device::flex();
    let read = training::run::single_file::SingleFileRun::from_bytes(&bytes, &device).unwrap();
    let config = super::json(&folder.join("r/config.json"));
    let config: training::config::RunConfig = serde_json::from_value(config).unwrap();
    assert_eq!(read.config, config);
    // The file is also valid as a file of the layout `native`.
    let exported = run(folder, "export page.safetensors --layout native --output n");
    let native = run(folder, "export r --layout native --output m");
    assert_eq!(exported.replace("n: ", ""), native.replace("m: ", ""));
    let [exported, native] = ["n", "m"].map(|name| std::fs::read(folder.join(name)).unwrap());
    assert!(exported == native);
    for (arguments, expected) in [
        ("export r --output x", "--layout"),
        ("export --web r --layout native --output x", "--layout"),
        ("export --web n --output x", "must be the folder of a run"),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        refused(folder, &arguments, &[expected]);
    }
}
