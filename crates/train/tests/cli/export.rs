//! `train export`: the Python module and the command that it prints, and the file of the web demo.

use super::task::train_tiny;
use super::{Folder, all_rejected, assert_has, notes, output, parsed, rows, run, text};

#[test]
fn export_prints_the_module_that_the_file_fits() {
    let folder = &Folder::new();
    train_tiny(folder, "pre", "--dropout 0.2");
    let settings = "--norm post --activation gelu --weight-tying all";
    train_tiny(folder, "tied", settings);
    // The unit tests of the printer have the details.
    let table = r#"
        pre --layout torch-nn | nn.Transformer(d_model=16, nhead=2,
        tied --layout torch-nn --no-positions | model["generator"].weight = model["tgt_tok_emb"]
        pre --layout labml | MultiHeadAttention(2, 16, 0.2)"#;
    for (flags, parts) in rows(table) {
        let printed = run(folder, &format!("export {flags} --output x --force"));
        assert_has(&printed, &parts);
    }
    let native = run(folder, "export pre --layout native --output x --force");
    assert_eq!(native.lines().count(), 1, "{native}");
    let table = "
        pre | --output: is missing: name a file to write, or give --folder
        pre --folder y | pre: has settings that no family of Hugging Face has, unlike one that is trained
        pre --output y.pt | --output y.pt: must be a name such as model.safetensors
        pre --layout marian --output y | --norm pre; --layout native, paper, labml, torch-nn can
        pre --layout llama --output y | has an encoder; --layout native,
        pre --layout bert --output y | has a decoder; --layout native,
        tied --layout labml --output y | --norm post; --layout native,
        pre --layout marian --folder y | --norm pre; train it with `fit --family marian`";
    all_rejected(folder, "export", table);
}

#[test]
fn an_exported_file_has_the_settings_of_its_model() {
    let folder = &Folder::new();
    let settings = "--norm pre --activation gelu --dropout 0.2";
    train_tiny(folder, "pre", settings);
    let export = "export pre --layout torch-nn --output x.safetensors";
    run(folder, export);
    let import = "import x.safetensors --run-dir again --symbols 9 --max-length 5";
    let said = notes(&output(folder, import));
    assert!(run(folder, "runs .").contains("imported from "));
    let eval = |run_folder: &str| {
        let scores = parsed(folder, &format!("eval {run_folder} --json"));
        (scores["loss"].clone(), scores["exact_match"].clone())
    };
    assert_eq!(eval("again"), eval("pre"));
    let config = super::json(&folder.join("again/config.json"));
    assert_eq!(config["model"]["dropout"], 0.2);
    let max_len = format!("model.max_len={} ", config["model"]["max_len"]);
    assert!(said.contains(&max_len), "{said}");
}

/// A resumed run must not train random weights instead of those that were imported.
#[test]
fn an_imported_run_without_its_weights_is_not_resumed() {
    let folder = &Folder::new();
    train_tiny(folder, "r", "");
    run(folder, "export r --output x.safetensors");
    let import = "import x.safetensors --symbols 9 --max-length 5 --run-dir im";
    run(folder, import);
    std::fs::remove_dir_all(folder.join("im/checkpoints")).unwrap();
    let resumed = output(folder, "resume im --steps 20");
    assert!(!resumed.status.success());
    assert!(text(&resumed.stderr).contains("checkpoint"));
}

#[test]
fn export_writes_a_run_as_one_file_for_the_page() {
    let folder = &Folder::new();
    train_tiny(folder, "r", "--task reverse");
    run(folder, "export --web r --output page.safetensors");
    // The web page of the demo reads the file with the same function.
    let bytes = std::fs::read(folder.join("page.safetensors")).unwrap();
    let device = burn::tensor::Device::flex();
    let read = training::run::single_file::from_bytes(&bytes, &device).unwrap();
    let config = super::json(&folder.join("r/config.json"));
    let config: training::config::RunConfig = serde_json::from_value(config).unwrap();
    assert_eq!(read.config, config);
    // The file is also valid as a file of the layout `native`.
    let exported = run(folder, "export page.safetensors --layout native --output n");
    let native = run(folder, "export r --output m");
    let expected = exported.replace("n: ", "m: ");
    assert_eq!(native, expected.replace('\n', ", the model of step 12\n"));
    let [exported, native] = ["n", "m"].map(|name| std::fs::read(folder.join(name)).unwrap());
    assert!(exported == native);
    let table = "
        --web r --layout native --output x | --layout
        --web n --output x | RUN n";
    all_rejected(folder, "export", table);
}

#[test]
fn only_what_an_export_wrote_is_replaced() {
    let folder = &Folder::new();
    train_tiny(folder, "run", "--family t5");
    std::fs::write(folder.join("corpus"), "go").unwrap();
    std::fs::create_dir(folder.join("mine")).unwrap();
    std::fs::write(folder.join("mine/config.json"), "{}").unwrap();
    let said = text(&output(folder, "export run --folder new").stderr);
    assert_has(&said, &["a task of symbols has no tokeniser"]);
    run(folder, "export run --output run.safetensors");
    run(
        folder,
        "export run --layout t5 --output run.safetensors --force",
    );
    let table = "
        export run --output corpus --force | --output corpus: was not written by `export`
        import run.safetensors --output corpus --force | --output corpus: was not written
        export run --folder mine --force | --folder mine: was not written by `export`";
    all_rejected(folder, "", table);
    assert_eq!(std::fs::read(folder.join("corpus")).unwrap(), b"go");
    assert_eq!(
        std::fs::read(folder.join("mine/config.json")).unwrap(),
        b"{}"
    );
}
