//! Folders in the form in which models are published: other files than `tokenizer.json`, or a
//! `tokenizer.json` that the class changes.
//!
//! `fixtures/published/make.py` makes the folders, and `expected.json` has what the library
//! `transformers` gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde::Deserialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
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
    /// Ids of the lines as targets, for some folders.
    #[serde(default)]
    targets: Vec<Vec<u32>>,
    outputs: Vec<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/published")
}

fn expected() -> BTreeMap<String, Expected> {
    let json = fs::read(fixtures().join("expected.json")).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn copy_of(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixtures().join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
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
        for (line, ids) in expected.lines.iter().zip(&expected.targets) {
            let found = codec.encode_target(line).unwrap();
            assert_eq!(found, ids[..ids.len() - 1], "{name}: {line:?}");
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

/// A change of one field of a folder; `fields.py` describes it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Change {
    file: String,
    field: Option<String>,
    folder: String,
    rejected: bool,
    is_plain: bool,
    also: BTreeMap<String, Map<String, Value>>,
    lines: Option<Vec<String>>,
    sources: Option<Vec<Vec<u32>>>,
    outputs: Option<Vec<String>>,
}

impl Change {
    /// Returns a copy of the folder in which the field has `value`; `None` removes it.
    fn folder(&self, value: Option<&Value>) -> TempDir {
        let folder = copy_of(&self.folder);
        let edit = |file: &str, field: &str, value: Option<&Value>| {
            let path = folder.path().join(file);
            let json = fs::read(&path).unwrap_or_else(|_| b"{}".into());
            let mut fields: Map<String, Value> = serde_json::from_slice(&json).unwrap();
            fields.remove(field);
            fields.extend(value.map(|value| (field.to_owned(), value.clone())));
            fs::write(path, serde_json::to_vec(&fields).unwrap()).unwrap();
        };
        match &self.field {
            Some(field) => edit(&self.file, field, value),
            None => fs::remove_file(folder.path().join(&self.file)).unwrap(),
        }
        for (file, fields) in &self.also {
            for (field, value) in fields {
                edit(file, field, Some(value).filter(|value| !value.is_null()));
            }
        }
        folder
    }

    /// Returns what differs from the library `transformers`, if anything does.
    fn compare(&self, value: Option<&Value>, base: &Expected) -> Result<(), String> {
        let of_base = |language: &Option<String>| language.clone().filter(|_| !self.is_plain);
        let languages = Languages {
            source: of_base(&base.source_language),
            target: of_base(&base.target_language),
        };
        let folder = self.folder(value);
        let opened = PretrainedModel::open(folder.path(), &languages);
        let run = match opened.and_then(|opened| opened.run(&Device::flex())) {
            Ok(_) if self.rejected => return Err("is not rejected".into()),
            Err(error) if !self.rejected => return Err(error.to_string()),
            Ok(run) => run,
            Err(error) => {
                let error = error.to_string();
                let scalar = value.filter(|value| !value.is_object());
                let value = scalar.map_or(String::new(), Value::to_string);
                let value = value.trim_matches(['[', ']', '"']).trim_end_matches(".0");
                let names = [&self.file, self.field.as_deref().unwrap_or(""), value];
                let is_unnamed = names.iter().any(|name| !error.contains(name));
                return if is_unnamed { Err(error) } else { Ok(()) };
            }
        };
        let (codec, search) = (run.dataset.codec(), run.dataset.search_config());
        let lines = self.lines.as_deref();
        let lines = lines.unwrap_or(&base.lines[..base.lines.len().min(4)]);
        let encode = |line: &String| codec.encode_source(line).unwrap();
        let ids: Vec<_> = lines.iter().map(encode).collect();
        let expected = self.sources.as_ref().unwrap_or(&base.sources);
        if ids[..] != expected[..lines.len()] {
            return Err(format!("{ids:?}, not {expected:?}"));
        }
        let prefixes = vec![run.dataset.search().prefix; lines.len()];
        let found = run.model.complete(&ids, &prefixes, &search);
        let found = found.unwrap().into_iter();
        let found: Vec<_> = found.map(|x| codec.decode_target(&x[0].tokens)).collect();
        let expected = self.outputs.as_ref().unwrap_or(&base.outputs)[..lines.len()].iter();
        let expected: Vec<_> = expected.map(|x| x.trim_matches(' ')).collect();
        let what = format!("{found:?}, not {expected:?}");
        (found == expected).then_some(()).ok_or(what)
    }
}

#[test]
fn fields_mean_what_they_mean_to_transformers_or_are_rejected() {
    let json = fs::read(fixtures().join("fields.json")).unwrap();
    let changes: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let (expected, mut wrong, mut tested) = (expected(), Vec::new(), BTreeSet::new());
    for json in &changes {
        let change: Change = serde_json::from_value(json.clone()).unwrap();
        let compared = change.compare(json.get("value"), &expected[&change.folder]);
        wrong.extend(compared.err().map(|what| format!("{json}: {what}")));
        let field = change.field.unwrap_or_else(|| "no file".into());
        tested.insert((change.file, field));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The document has a row for each of them.
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/folders.md");
    let (mut file, mut rows) = (String::new(), BTreeSet::new());
    for line in fs::read_to_string(page).unwrap().lines() {
        if let Some(name) = line.strip_prefix("## ") {
            file = name.trim_matches('`').into();
        } else if let Some(row) = line.strip_prefix("| `") {
            let fields = row.split_once("` | ").unwrap().0.split("`, `");
            rows.extend(fields.map(|field| (file.clone(), field.into())));
        }
    }
    assert_eq!(rows, tested);
}

#[test]
fn tokenisers_of_several_files_survive_a_run_and_an_export() {
    for name in ["marian", "marian_two", "m2m_100"] {
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
        let folder = tempfile::tempdir().unwrap();
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
        let read = |folder: &Path, file: &str| -> Value {
            let json = fs::read(folder.join(file)).unwrap_or_else(|_| b"null".into());
            serde_json::from_slice(&json).unwrap()
        };
        for file in ["vocab.json", "target_vocab.json"] {
            let original = read(&fixtures().join(name), file);
            assert_eq!(read(folder.path(), file), original, "{name}");
        }
        // The folder's own language of sources is another one.
        let language = &read(folder.path(), "tokenizer_config.json")["src_lang"];
        assert_eq!(language.as_str(), expected.source_language.as_deref());
    }
}

#[test]
fn damaged_files_are_named() {
    let with = |file: &str, bytes: &[u8]| {
        let folder = copy_of("marian");
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
            "has vocab.json: there is no token </s>",
        ),
        (
            "vocab.json",
            b"{\"a\": 0, \"a\": 1}",
            "has vocab.json: \"a\" is there twice",
        ),
        (
            "vocab.json",
            b"{\"</s>\": 0, \"<unk>\": 1, \"<pad>\": 1}",
            "has vocab.json: <pad> and <unk> both have the id 1",
        ),
        (
            "tokenizer_config.json",
            b"{\"separate_vocabs\": true}",
            "separate_vocabs is true, but there is no target_vocab.json",
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
