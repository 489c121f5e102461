//! Compares the outputs of models in Hugging Face folders with those of the library `transformers`.
//!
//! `crates/transformer/tests/fixtures/families` has the folders. `NAME.generated.json` beside the
//! folder `NAME` has the texts and the expected outputs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::{Value, json};
use training::collective::Alone;
use training::data::Example;
use training::evaluation::decode_greedily;
use training::inference::{Generation, Line, Predictor, Work};
use training::pretrained::{Languages, PretrainedModel, is_pretrained, write_folder};
use training::run::checkpoint::TrainedRun;
use transformer::generate::{EarlyStopping, GenerateConfig, Method};
use transformer::weights::Layout;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/families")
}

/// Returns the contents of `NAME.generated.json`: the list `texts`, and a list of the expected
/// outputs for each way of decoding, such as `greedy`.
fn generated(name: &str) -> BTreeMap<String, Vec<String>> {
    let json = fs::read(fixtures().join(format!("{name}.generated.json"))).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn outputs(run: &TrainedRun, config: GenerateConfig, texts: &[String]) -> Vec<String> {
    let generation = Generation {
        config,
        prefix: run.dataset.search().prefix,
        alignments: false,
        extends: false,
    };
    let predictor = Predictor::new(run, Work::Generate(generation), false);
    let requests = (1..).zip(texts).map(|(number, text)| {
        let text = text.clone();
        predictor.request(&Line { number, text }).unwrap().unwrap()
    });
    let requests: Vec<_> = requests.collect();
    let lines = predictor.predict(&requests, &mut |_| ()).unwrap();
    lines.iter().map(|line| line.trim_end().into()).collect()
}

#[test]
fn outputs_are_those_of_transformers() {
    for name in ["t5", "bart", "m2m_100"] {
        let expected = generated(name);
        let texts = &expected["texts"];
        assert_eq!(texts.len(), 200);
        for (mode, expected) in &expected {
            let mut languages = Languages::default();
            if mode == "flags" {
                languages.source = Some("fra_Latn".into());
                languages.target = Some("deu_Latn".into());
            }
            let folder = fixtures().join(name);
            assert!(is_pretrained(&folder));
            let run = PretrainedModel::open(&folder, &languages).unwrap();
            let run = run.run(&Device::flex()).unwrap();
            let mut config = run.dataset.search_config();
            match mode.as_str() {
                "texts" => continue,
                "greedy" => config.method = Method::Greedy,
                "heuristic" => config.early_stopping = EarlyStopping::Heuristic,
                "full" => config.early_stopping = EarlyStopping::Full,
                _ => {}
            }
            let found = outputs(&run, config, texts);
            let both = texts.iter().zip(found.iter().zip(expected));
            let wrong: Vec<_> = both
                .filter(|(_, (found, expected))| found != expected)
                .collect();
            // One output may differ, because rounding may decide between hypotheses with almost
            // equal scores.
            let first = wrong.first();
            assert!(
                wrong.len() <= 1,
                "{name}, {mode}: {} differ, {first:?}",
                wrong.len()
            );
        }
    }
}

#[test]
fn evaluations_decode_with_the_settings_of_the_folder() {
    for name in ["t5", "bart", "m2m_100"] {
        let expected = generated(name);
        let folder = fixtures().join(name);
        let run = PretrainedModel::open(&folder, &Languages::default()).unwrap();
        let run = run.run(&Device::flex()).unwrap();
        let codec = run.dataset.codec();
        let vocabularies = codec.vocabularies();
        let target = vec![vocabularies.bos_id, vocabularies.eos_id.unwrap()];
        let examples = expected["texts"].iter().map(|text| Example {
            source: codec.encode_source(text).unwrap(),
            target: target.clone(),
        });
        let examples: Vec<_> = examples.collect();
        let decoded = decode_greedily(&run.model, run.dataset.as_ref(), &examples, &Alone).unwrap();
        assert_eq!(decoded.len(), expected["greedy"].len());
        let both = decoded.iter().zip(&expected["greedy"]);
        let wrong: Vec<_> = both
            .map(|(found, expected)| (codec.decode_target(&found.output), expected))
            .filter(|(found, expected)| found.trim_end() != *expected)
            .collect();
        assert!(wrong.len() <= 1, "{name}: {wrong:?}");
    }
}

#[test]
fn special_tokens_have_their_names_in_files_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixtures().join("bart")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    // The copied tokeniser gets the decoder of the real BART, which omits special tokens.
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tokenizer["decoder"] = json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": true
    });
    let tokenizer = tokenizer.to_string();
    fs::write(&path, &tokenizer).unwrap();
    let model = PretrainedModel::open(folder.path(), &Languages::default()).unwrap();
    let run = model.run(&Device::flex()).unwrap();
    let dataset = run.dataset.as_ref();
    let codec = dataset.codec();
    let ids = [0, 1, 2, 3];
    let names = ["<s>", "<pad>", "</s>", "<unk>"];
    assert_eq!(ids.map(|id| codec.target_token(id)), names);
    assert_eq!(ids.map(|id| codec.target_label(id)), names);
    let written = tempfile::tempdir().unwrap();
    let tokenizer = Some(tokenizer.as_bytes());
    let folder = written.path();
    write_folder(folder, Layout::Bart, &run.config, dataset, tokenizer).unwrap();
    let settings = fs::read(written.path().join("tokenizer_config.json")).unwrap();
    let settings: Value = serde_json::from_slice(&settings).unwrap();
    let special = ["bos_token", "pad_token", "eos_token", "unk_token"];
    assert_eq!(special.map(|name| settings[name].as_str().unwrap()), names);
}

#[test]
fn unusable_folders_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let copy = || {
        let files = "config.json model.safetensors tokenizer.json generation_config.json";
        for file in files.split(' ') {
            fs::copy(fixtures().join("m2m_100").join(file), folder.join(file)).unwrap();
        }
    };
    let refused = |languages: Languages, expected: &str| {
        let result = PretrainedModel::open(folder, &languages);
        let error = result
            .err()
            .unwrap_or_else(|| panic!("no error: {expected}"));
        assert!(error.to_string().contains(expected), "{error}");
    };
    let none = Languages::default;
    copy();
    assert!(PretrainedModel::open(folder, &none()).is_ok());
    let latin = Languages {
        target: Some("lat_Latn".into()),
        ..none()
    };
    refused(
        latin,
        "is not a language of the tokeniser, which are deu_Latn, eng_Latn, fra_Latn",
    );
    fs::remove_file(folder.join("tokenizer.json")).unwrap();
    refused(
        none(),
        "has neither tokenizer.json nor sentencepiece.bpe.model and vocab.json of its M2M100Tokenizer",
    );
    fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    refused(none(), "is not a tokenizer.json of Hugging Face");
    let larger = fs::read_to_string(fixtures().join("m2m_100/tokenizer.json")).unwrap();
    fs::write(folder.join("tokenizer.json"), larger.replace("28", "29")).unwrap();
    refused(none(), "has the token id 29, but the model has 29 tokens");
    copy();
    let settings = r#"{"decoder_start_token_id": 2, "eos_token_id": 2, "min_length": 90000}"#;
    fs::write(folder.join("generation_config.json"), settings).unwrap();
    refused(none(), "min_length is 89999, but must be at most");
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    refused(none(), "has no weights: none of model.safetensors");
}
