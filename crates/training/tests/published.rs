//! Folders in the form in which models are published: other files than `tokenizer.json`, or a
//! `tokenizer.json` that the class changes.
//!
//! `fixtures/published/make.py` makes the folders, and `expected.json` has what the library
//! `transformers` gives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde::Deserialize;
use training::data::DataConfig;
use training::data::parallel::TokenizerPair;
use training::pretrained::{Languages, PretrainedModel, write_folder};
use transformer::generate::Method;

#[derive(Deserialize)]
struct Expected {
    source_language: Option<String>,
    target_language: Option<String>,
    lines: Vec<String>,
    sources: Vec<Vec<u32>>,
    outputs: Vec<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/published")
}

fn expected() -> BTreeMap<String, Expected> {
    let json = fs::read(fixtures().join("expected.json")).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn open(folder: &Path, expected: &Expected) -> PretrainedModel {
    let languages = Languages {
        source: expected.source_language.clone(),
        target: expected.target_language.clone(),
    };
    let opened = PretrainedModel::open(folder, &languages);
    opened.unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

#[test]
fn ids_and_outputs_are_those_of_transformers() {
    for (name, expected) in expected() {
        let run = open(&fixtures().join(&name), &expected);
        let run = run.run(&Device::flex()).unwrap();
        let codec = run.dataset.codec();
        for (line, ids) in expected.lines.iter().zip(&expected.sources) {
            let found = codec.encode_source(line).unwrap();
            assert_eq!(found, *ids, "{name}: {line:?}");
        }
        let mut search = run.dataset.search_config();
        search.method = Method::Greedy;
        let prefixes = vec![run.dataset.search().prefix; expected.lines.len()];
        let found = run
            .model
            .complete(&expected.sources, &prefixes, &search)
            .unwrap();
        for (found, output) in found.iter().zip(&expected.outputs) {
            // Outputs have no blanks at their ends.
            let found = codec.decode_target(&found[0].tokens);
            assert_eq!(found, output.trim_matches(' '), "{name}");
        }
    }
}

#[test]
fn tokenisers_of_several_files_survive_a_run_and_an_export() {
    for name in ["marian", "m2m_100"] {
        let expected = &expected()[name];
        let run = open(&fixtures().join(name), expected)
            .run(&Device::flex())
            .unwrap();
        let DataConfig::Text(text) = &run.config.data else {
            panic!("{name} is a model of texts");
        };
        let folder = tempfile::tempdir().unwrap();
        let parsed = training::data::parallel::PretrainedTokenizer::read(&fixtures().join(name));
        let pair = TokenizerPair::pretrained(&parsed.unwrap(), text.pretrained.as_ref().unwrap());
        pair.unwrap().save(folder.path()).unwrap();
        let again = TokenizerPair::of_run(folder.path(), text).unwrap();
        for (line, ids) in expected.lines.iter().zip(&expected.sources) {
            assert_eq!(
                again.source.encode(line)[..],
                ids[..ids.len() - 1],
                "{line}"
            );
        }
        let json = again.source.json.to_vec();
        let layout = transformer::weights::Layout::of_hugging_face(&run.config.model).unwrap();
        write_folder(
            folder.path(),
            layout,
            &run.config,
            &*run.dataset,
            Some(&json),
        )
        .unwrap();
        for file in ["source.spm", "target.spm", "sentencepiece.bpe.model"] {
            if let Ok(original) = fs::read(fixtures().join(name).join(file)) {
                assert!(
                    fs::read(folder.path().join(file)).unwrap() == original,
                    "{file}"
                );
            }
        }
        let read = |folder: &Path| -> serde_json::Value {
            serde_json::from_slice(&fs::read(folder.join("vocab.json")).unwrap()).unwrap()
        };
        assert_eq!(read(folder.path()), read(&fixtures().join(name)));
    }
}

#[test]
fn damaged_files_are_named() {
    let with = |file: &str, bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(fixtures().join("marian")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        fs::write(folder.path().join(file), bytes).unwrap();
        let opened = PretrainedModel::open(folder.path(), &Languages::default());
        opened.err().expect("the folder is refused").to_string()
    };
    let spm = fs::read(fixtures().join("marian/source.spm")).unwrap();
    for (file, bytes, expected) in [
        ("source.spm", &spm[..spm.len() / 2], "has source.spm: "),
        ("target.spm", &[][..], "has target.spm: "),
        (
            "vocab.json",
            b"{\"<unk>\": 1, \"<pad>\": 2}",
            "vocab.json has no token </s>",
        ),
        ("vocab.json", b"[", "has vocab.json: "),
        (
            "vocab.json",
            b"{\"</s>\": 0, \"<unk>\": 1, \"<pad>\": 1}",
            "vocab.json has two tokens with one id",
        ),
        (
            "tokenizer_config.json",
            b"{\"separate_vocabs\": true}",
            "separate_vocabs is true, but only false is supported",
        ),
    ] {
        let error = with(file, bytes);
        assert!(error.contains(expected), "{error}");
    }
    let languages = Languages {
        source: None,
        target: Some("xx".into()),
    };
    let error = PretrainedModel::open(&fixtures().join("m2m_100"), &languages);
    let error = error.err().expect("xx is no language").to_string();
    assert!(error.contains("is not one of the 100 languages"), "{error}");
}
