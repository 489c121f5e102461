//! Replaces a file of a token cache, which holds the token ids of a corpus, by arbitrary bytes.
//! Opening the cache must give the pairs of the corpus, because a damaged cache is made again.
#![no_main]

#[path = "files.rs"]
mod files;

use std::path::PathBuf;
use std::sync::OnceLock;

use training::data::parallel::tokenizer::{Texts, TokenizerKind};
use training::data::parallel::{Corpus, ReadOptions, TokenCache, Tokenizer, TokenizerConfig};

struct Scene {
    corpus: Corpus,
    fingerprints: Vec<String>,
    tokenizer: Tokenizer,
    caches: PathBuf,
}

const OPTIONS: ReadOptions = ReadOptions {
    lossy: false,
    truncates: false,
    keeps_empty: false,
};

impl Scene {
    fn new() -> Self {
        let lines = "a b\tb a\nc d e\te d c\na c\tc a\nb d e\te d b\n";
        let source = files::write("a.tsv", lines.as_bytes());
        let corpus = Corpus {
            source,
            ..Corpus::default()
        };
        let config = TokenizerConfig {
            kind: TokenizerKind::Char,
            ..TokenizerConfig::new(50)
        };
        let texts = lines.lines().map(|line| Ok(line.into()));
        let tokenizer = Tokenizer::train(&config, Texts::Both, texts).expect("a small corpus");
        Self {
            fingerprints: vec!["of the corpus".into()],
            corpus,
            tokenizer,
            caches: files::folder().join("caches"),
        }
    }

    fn open(&self) -> Vec<[Vec<u32>; 2]> {
        let Self {
            corpus,
            fingerprints,
            tokenizer,
            caches,
        } = self;
        let tokenizers = [tokenizer, tokenizer];
        let cache = TokenCache::open_or_make(caches, corpus, fingerprints, OPTIONS, tokenizers);
        let cache = cache.expect("the corpus can be read");
        (0..cache.pairs()).map(|pair| cache.pair(pair)).collect()
    }

    /// Returns the folder of the only cache.
    fn folder(&self) -> PathBuf {
        let entries = std::fs::read_dir(&self.caches).expect("there are caches");
        let mut folders = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        folders.next().expect("there is a cache")
    }
}

// The first byte chooses the file that the other bytes replace.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static SCENE: OnceLock<(Scene, Vec<[Vec<u32>; 2]>)> = OnceLock::new();
    let (scene, pairs) = SCENE.get_or_init(|| {
        let scene = Scene::new();
        let pairs = scene.open();
        (scene, pairs)
    });
    let Some((&which, bytes)) = bytes.split_first() else {
        return;
    };
    let name = ["manifest.json", "index", "tokens"][which as usize % 3];
    std::fs::write(scene.folder().join(name), bytes).expect("a temporary file");
    let found = scene.open();
    assert!(found == *pairs, "another corpus: {found:?}");
});
