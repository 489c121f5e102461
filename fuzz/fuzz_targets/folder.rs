//! Replaces a JSON file of a Hugging Face folder by arbitrary bytes. Opening the folder must give a
//! valid configuration or an error.
#![no_main]

#[path = "files.rs"]
mod files;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use training::pretrained::{Languages, PretrainedModel};

const FAMILIES: [&str; 3] = ["bart", "m2m_100", "t5"];

const FILES: [&str; 3] = ["config.json", "generation_config.json", "tokenizer.json"];

/// Copies the folders of `FAMILIES` into a temporary folder, and returns the path of that folder.
fn scene() -> PathBuf {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/transformer/tests/fixtures/families"
    );
    for family in FAMILIES {
        let folder = files::folder().join(family);
        std::fs::create_dir(&folder).expect("a temporary folder");
        for file in FILES.into_iter().chain(["model.safetensors"]) {
            let from = Path::new(fixtures).join(family).join(file);
            std::fs::copy(from, folder.join(file)).expect("a fixture");
        }
    }
    files::folder().into()
}

// The first byte chooses the file that the other bytes replace. The fuzzer's own panic hook is
// replaced, because it aborts at each panic, even at one that the library catches.
libfuzzer_sys::fuzz_target!(init: std::panic::set_hook(Box::new(|_| ())), |bytes: &[u8]| {
    static SCENE: OnceLock<PathBuf> = OnceLock::new();
    let scene = SCENE.get_or_init(scene);
    let Some((&which, bytes)) = bytes.split_first() else {
        return;
    };
    let which = which as usize;
    let family = FAMILIES[which / FILES.len() % FAMILIES.len()];
    let name = format!("{family}/{}", FILES[which % FILES.len()]);
    let whole = std::fs::read(scene.join(&name)).expect("a fixture");
    files::write(&name, bytes);
    if let Ok(model) = PretrainedModel::open(&scene.join(family), &Languages::default()) {
        let config = model.imported.config().expect("a whole model");
        assert!(config.validate().is_ok(), "{config:?}");
    }
    files::write(&name, &whole);
});
