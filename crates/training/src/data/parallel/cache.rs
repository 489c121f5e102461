//! Tokenised corpora in files. The files may be larger than memory, and a resumed run need not
//! tokenise its training corpus again.
//!
//! - `tokens` has the ids of one sequence after the other, without begin and end symbol, four bytes
//!   each.
//! - `index` has the lengths of the source and the target of each pair, four bytes each. It is read
//!   into memory.
//! - `manifest.json` says what the other files were made from, and has their SHA-256. The SHA-256
//!   is verified before the files are used.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cache_folder::{self, PAIRS};
use super::fingerprints::check_unchanged;
use super::{Corpus, CorpusStats, Pair, ReadOptions, Tokenizer};
use crate::data::UnknownCounts;
use crate::files::{Checksum, hex, key, open_regular, read_regular, sha256, write_json};
use crate::notes;

/// Version of the file format, and of the processing of texts before tokenisation.
pub(super) const FORMAT: u32 = 5;

/// Number of pairs that are tokenised at a time.
const CHUNK: usize = 8192;

const TOKENS: &str = "tokens";
const INDEX: &str = "index";
const MANIFEST: &str = "manifest.json";

#[derive(Serialize, Deserialize)]
struct Manifest {
    /// Everything that the cache is made from. The name of its folder contains a hash of this.
    origin: Value,
    stats: CorpusStats,
    unknown: UnknownCounts,
    /// SHA-256 of `tokens` and of `index`, in hexadecimal digits.
    sha256: [String; 2],
}

/// The pairs of a corpus as token ids, in files.
pub struct TokenCache {
    path: PathBuf,
    tokens: Mutex<File>,
    /// Lengths of the source and the target of each pair.
    lengths: Vec<[u32; 2]>,
    /// Position of each source in the file `tokens`, in bytes.
    starts: Vec<u64>,
    /// Counts of what was read from the corpus.
    pub stats: CorpusStats,
    /// Numbers of tokens outside the vocabularies, and of all tokens.
    pub unknown: UnknownCounts,
}

impl TokenCache {
    /// Opens the cache of a corpus in the folder `caches`. Makes the cache first if it does not
    /// exist or is damaged. `files` has the SHA-256 of each file of the corpus; `tokenizers` are
    /// those of sources and of targets.
    ///
    /// # Errors
    ///
    /// If the corpus cannot be read, the folder cannot be written, or the new cache cannot be
    /// opened.
    pub fn open_or_make(
        caches: &Path,
        corpus: &Corpus,
        files: &[String],
        options: ReadOptions,
        tokenizers: [&Tokenizer; 2],
    ) -> Result<Self> {
        let origin = json!({
            "format": FORMAT,
            // Numbers in the files have the byte order of the machine that wrote them.
            "little_endian": cfg!(target_endian = "little"),
            "files": files,
            "fields": corpus.fields,
            "is_table": corpus.target.is_none(),
            "options": options,
            "tokenizers": tokenizers.map(Tokenizer::identity),
        });
        let name = format!("{PAIRS}{}", key(&origin));
        let open = |path: &Path| Self::open(path, &origin);
        let make = |path: &Path| {
            make(path, &origin, corpus, options, tokenizers)?;
            Ok(check_unchanged(corpus, files)?)
        };
        cache_folder::open_or_make(caches, &name, open, make)
    }

    /// Opens the cache in the folder `path`. Returns `None` if the manifest cannot be read, and an
    /// error if the cache is damaged.
    fn open(path: &Path, origin: &Value) -> Result<Option<Self>> {
        let Ok(manifest) = read_regular(&path.join(MANIFEST), 16) else {
            return Ok(None);
        };
        let manifest: Manifest = serde_json::from_slice(&manifest)?;
        anyhow::ensure!(manifest.origin == *origin, "it is of another corpus");
        let tokens = open_regular(&path.join(TOKENS)).context(TOKENS)?;
        let index = read_regular(&path.join(INDEX), u64::MAX >> 20).context(INDEX)?;
        let found = [
            Checksum::of(&tokens).context(TOKENS)?.sha256,
            sha256(&index),
        ];
        anyhow::ensure!(found == manifest.sha256, "a file differs from its SHA-256");
        let lengths: Vec<[u32; 2]> = bytemuck::pod_collect_to_vec(&index);
        let starts = lengths.iter().scan(0, |end, [source, target]| {
            let size = 4 * (u64::from(*source) + u64::from(*target));
            *end += size;
            Some(*end - size)
        });
        Ok(Some(Self {
            path: path.join(TOKENS),
            tokens: Mutex::new(tokens),
            starts: starts.collect(),
            lengths,
            stats: manifest.stats,
            unknown: manifest.unknown,
        }))
    }

    /// Returns the number of pairs.
    pub fn pairs(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the numbers of tokens of a pair's source and target.
    pub fn lengths(&self, pair: usize) -> [usize; 2] {
        self.lengths[pair].map(|length| length as usize)
    }

    /// Returns the ids of a pair's source and target, without begin and end symbol.
    ///
    /// Unwinds with an [`anyhow::Error`] if the file cannot be read, because another process has
    /// truncated it, for example.
    pub fn pair(&self, pair: usize) -> [Vec<u32>; 2] {
        let [source, target] = self.lengths(pair);
        let mut ids = vec![0; source + target];
        let mut file = self.tokens.lock().expect("no holder panics");
        let read = file.seek(SeekFrom::Start(self.starts[pair]));
        let read = read.and_then(|_| file.read_exact(bytemuck::cast_slice_mut(&mut ids)));
        drop(file);
        if let Err(error) = read {
            let path = self.path.display();
            let what = format!("cannot be read ({error}); resume the run, which makes it again");
            resume_unwind(Box::new(anyhow::anyhow!("{path} {what}")));
        }
        let target = ids.split_off(source);
        [ids, target]
    }
}

/// Tokenises a corpus and writes the files of its cache into `folder`.
fn make(
    folder: &Path,
    origin: &Value,
    corpus: &Corpus,
    options: ReadOptions,
    [source, target]: [&Tokenizer; 2],
) -> Result<()> {
    let mut pairs = corpus.read(options)?;
    let cannot = || format!("cannot write {}", folder.display());
    let create = |name| File::create(folder.join(name)).with_context(cannot);
    let mut files = [create(TOKENS)?, create(INDEX)?];
    let mut hashes = [Sha256::new(), Sha256::new()];
    let mut unknown = UnknownCounts::default();
    loop {
        let chunk = pairs.by_ref().take(CHUNK);
        let chunk: Vec<Pair> = chunk.collect::<Result<_, _>>()?;
        let n = chunk.len();
        if n == 0 {
            break;
        }
        let texts = chunk.into_iter().map(|pair| (pair.source, pair.target));
        let (sources, targets) = texts.unzip();
        let (sources, targets) = (source.encode_all(sources), target.encode_all(targets));
        let (mut ids, mut lengths) = (Vec::new(), Vec::new());
        for (a, b) in sources.iter().zip(&targets) {
            source.count_unknown(a, &mut unknown[0]);
            target.count_unknown(b, &mut unknown[1]);
            lengths.extend([a.len() as u32, b.len() as u32]);
            ids.extend(a.iter().chain(b));
        }
        for ((file, hash), numbers) in files.iter_mut().zip(&mut hashes).zip([ids, lengths]) {
            let bytes: &[u8] = bytemuck::cast_slice(&numbers);
            hash.update(bytes);
            file.write_all(bytes).with_context(cannot)?;
        }
        notes::progress("pairs tokenised", n);
    }
    for file in files {
        file.sync_all().with_context(cannot)?;
    }
    let manifest = Manifest {
        origin: origin.clone(),
        stats: pairs.stats(),
        unknown,
        sha256: hashes.map(|hash| hex(&hash.finalize())),
    };
    write_json(&folder.join(MANIFEST), &manifest).with_context(cannot)
}
