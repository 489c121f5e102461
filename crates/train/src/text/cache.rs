//! A corpus as token ids, in files that are mapped into memory: larger than memory, and there at
//! once when a run starts again.
//!
//! `tokens` has the ids of one sequence after the other, in two bytes each where the vocabularies
//! allow that; `index` has for each pair where its source begins in `tokens`, and both lengths;
//! `manifest.json` says what they were made of. Begin and end tokens are not in them.

use std::fs::{self, File, TryLockError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::corpus::{Corpus, Fingerprint, Met, Reading, hex};
use super::tokenizer::Tokenizer;
use crate::disk::{sync_folder, write_json};
use crate::error::UsageError;
use crate::output;

/// Of the files' layout, and of what is done to texts before they are tokens.
pub(super) const FORMAT: u32 = 1;

/// Pairs that are tokenised together.
const CHUNK: usize = 8192;

const TOKENS: &str = "tokens";
const INDEX: &str = "index";
const MANIFEST: &str = "manifest.json";

/// What a cache is made of: if any of it differs, it is another cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    format: u32,
    /// Of this machine's numbers, which the files have as they are.
    little_endian: bool,
    files: Vec<Fingerprint>,
    fields: Option<[String; 2]>,
    is_table: bool,
    reading: Reading,
    source_tokenizer: String,
    target_tokenizer: String,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    origin: Origin,
    met: Met,
    /// Bytes of `tokens`.
    token_bytes: u64,
    /// Bytes of an id.
    width: u64,
}

/// Pairs of token ids.
pub struct TokenCache {
    tokens: Mmap,
    index: Mmap,
    is_wide: bool,
    met: Met,
}

impl TokenCache {
    /// The cache of a corpus in a folder of caches: as it is there, or made now.
    ///
    /// # Errors
    ///
    /// A corpus that cannot be read, or a folder that cannot be written.
    pub fn open_or_make(
        folder: &Path,
        corpus: &Corpus,
        files: &[Fingerprint],
        reading: Reading,
        [source, target]: [&Tokenizer; 2],
    ) -> Result<Self> {
        let origin = Origin {
            format: FORMAT,
            little_endian: cfg!(target_endian = "little"),
            files: files.to_vec(),
            fields: corpus.fields.clone(),
            is_table: corpus.target.is_none(),
            reading,
            source_tokenizer: source.sha256().into(),
            target_tokenizer: target.sha256().into(),
        };
        let path = folder.join(format!("pairs-{}", key(&origin)));
        if let Ok(Some(cache)) = Self::open(&path, &origin, [source, target]) {
            return Ok(cache);
        }
        let _lock = lock(folder)?;
        match Self::open(&path, &origin, [source, target]) {
            // Another run was faster.
            Ok(Some(cache)) => return Ok(cache),
            Ok(None) => {}
            Err(error) => {
                let what = format!("warning: {} is damaged ({error:#})", path.display());
                output::note(&format!("{what}; it is made again"));
            }
        }
        make(&path, &origin, corpus, [source, target])?;
        let cache = Self::open(&path, &origin, [source, target])?;
        cache.with_context(|| format!("{} was taken away at once", path.display()))
    }

    /// None if it is not there.
    fn open(path: &Path, origin: &Origin, tokenizers: [&Tokenizer; 2]) -> Result<Option<Self>> {
        let Ok(manifest) = fs::read(path.join(MANIFEST)) else {
            return Ok(None);
        };
        let manifest: Manifest = serde_json::from_slice(&manifest)?;
        anyhow::ensure!(manifest.origin == *origin, "it is of another corpus");
        let cache = Self {
            tokens: map(&path.join(TOKENS))?,
            index: map(&path.join(INDEX))?,
            is_wide: is_wide(tokenizers),
            met: manifest.met,
        };
        let width = if cache.is_wide { 4 } else { 2 };
        anyhow::ensure!(manifest.width == width, "its ids have another size");
        let bytes = cache.tokens.len() as u64;
        anyhow::ensure!(
            bytes == manifest.token_bytes && cache.index.len() as u64 == 16 * manifest.met.pairs,
            "its files have other lengths than its manifest says"
        );
        cache.check(tokenizers.map(Tokenizer::vocab_size))?;
        Ok(Some(cache))
    }

    /// Refuses what would be no sequences of the vocabularies.
    fn check(&self, vocab_sizes: [usize; 2]) -> Result<()> {
        let count = self.tokens.len() as u64 / if self.is_wide { 4 } else { 2 };
        for pair in 0..self.len() {
            let (start, lengths) = self.place(pair);
            let end = start.checked_add(lengths.iter().sum::<usize>() as u64);
            let is_inside = end.is_some_and(|end| end <= count);
            anyhow::ensure!(is_inside, "pair {pair} is past its end");
            for (ids, size) in self.pair(pair).iter().zip(vocab_sizes) {
                let is_known = ids.iter().all(|&id| (id as usize) < size);
                anyhow::ensure!(is_known, "pair {pair} has an id that is no token");
            }
        }
        Ok(())
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.index.len() / 16
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was met when it was made.
    pub fn met(&self) -> Met {
        self.met
    }

    /// Tokens of a pair's source and target.
    pub fn lengths(&self, pair: usize) -> [usize; 2] {
        self.place(pair).1
    }

    /// The ids of a pair's source and target.
    pub fn pair(&self, pair: usize) -> [Vec<u32>; 2] {
        let (start, [source, target]) = self.place(pair);
        let start = start as usize;
        let ids = |start: usize, length: usize| -> Vec<u32> {
            match self.is_wide {
                true => numbers::<u32>(&self.tokens)[start..start + length].to_vec(),
                false => {
                    let ids = &numbers::<u16>(&self.tokens)[start..start + length];
                    ids.iter().map(|&id| id.into()).collect()
                }
            }
        };
        [ids(start, source), ids(start + source, target)]
    }

    fn place(&self, pair: usize) -> (u64, [usize; 2]) {
        let entry = &numbers::<u64>(&self.index)[2 * pair..][..2];
        let lengths = [entry[1] & 0xffff_ffff, entry[1] >> 32];
        (entry[0], lengths.map(|length| length as usize))
    }
}

/// Whether an id needs more than two bytes.
fn is_wide(tokenizers: [&Tokenizer; 2]) -> bool {
    tokenizers.iter().any(|one| one.vocab_size() > 1 << 16)
}

/// A file's numbers; its bytes begin at a page.
fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

#[allow(unsafe_code)]
fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    // SAFETY: The files have names of their contents, appear whole by a rename of their folder and
    // are never written again by this program. Whoever else cuts one short while it is read gets a
    // bus error, as with any mapped file; changed numbers are numbers, too, and bounds are checked.
    let map = unsafe { Mmap::map(&file) };
    map.with_context(|| path.display().to_string())
}

/// The first digits of a hash.
pub(super) fn key(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("it is plain data");
    hex(&Sha256::digest(json))[..16].into()
}

/// Tokenises a corpus into a folder, which appears whole.
fn make(
    path: &Path,
    origin: &Origin,
    corpus: &Corpus,
    [source, target]: [&Tokenizer; 2],
) -> Result<()> {
    let mut pairs = corpus.read(origin.reading)?;
    let temporary = temporary(path)?;
    let is_wide = is_wide([source, target]);
    let cannot = || format!("cannot write {}", temporary.0.display());
    let create = |name| File::create(temporary.0.join(name)).map(BufWriter::new);
    let mut tokens = create(TOKENS).with_context(cannot)?;
    let mut index = create(INDEX).with_context(cannot)?;
    let mut progress = crate::progress::LineProgress::new(false);
    let mut start = 0u64;
    let mut chunk = Vec::with_capacity(CHUNK);
    loop {
        chunk.clear();
        for pair in pairs.by_ref().take(CHUNK) {
            chunk.push(pair?);
        }
        if chunk.is_empty() {
            break;
        }
        let (sources, targets): (Vec<String>, Vec<String>) = chunk
            .drain(..)
            .map(|pair| (pair.source, pair.target))
            .unzip();
        let n = sources.len();
        let ids = source.encode_all(sources).into_iter();
        let ids = ids.zip(target.encode_all(targets));
        let mut bytes = Vec::new();
        for (source, target) in ids {
            let lengths = source.len() as u64 | (target.len() as u64) << 32;
            let entry = [start, lengths];
            index
                .write_all(bytemuck::cast_slice(&entry))
                .with_context(cannot)?;
            start += (source.len() + target.len()) as u64;
            for id in source.iter().chain(&target) {
                match is_wide {
                    true => bytes.extend(id.to_ne_bytes()),
                    false => bytes.extend((*id as u16).to_ne_bytes()),
                }
            }
        }
        tokens.write_all(&bytes).with_context(cannot)?;
        progress.count("pairs tokenised", n);
    }
    progress.finish();
    for file in [tokens, index] {
        let file = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).with_context(cannot)?;
    }
    let manifest = Manifest {
        origin: origin.clone(),
        met: pairs.met(),
        token_bytes: start * if is_wide { 4 } else { 2 },
        width: if is_wide { 4 } else { 2 },
    };
    write_json(&temporary.0.join(MANIFEST), &manifest).with_context(cannot)?;
    temporary.becomes(path)
}

/// Waits until no other process makes anything in a folder of caches; until the file is closed, none
/// will. What killed ones have left there is taken away.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let cannot = || format!("cannot write {}", folder.display());
    let made = fs::create_dir_all(folder).and_then(|()| File::create(folder.join("lock")));
    let file = made.map_err(|error| {
        let expected = format!("cannot be written ({error}); name a folder that can");
        UsageError::new("--cache", folder.display(), expected)
    })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            output::note("waiting for another run, which is making its data ready");
            file.lock().with_context(cannot)?;
        }
        // Some network folders have no locks.
        Err(TryLockError::Error(_)) => return Ok(file),
    }
    for entry in fs::read_dir(folder).with_context(cannot)?.flatten() {
        let name = entry.file_name();
        let is_ours = ["pairs-", "tokenizer-"]
            .iter()
            .any(|kind| name.to_string_lossy().starts_with(kind));
        if is_ours && name.to_string_lossy().ends_with(TEMPORARY) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(file)
}

const TEMPORARY: &str = ".tmp";

/// A folder that is taken away again unless it becomes another.
pub(super) struct Temporary(pub(super) PathBuf);

/// A new folder beside a path, in a folder of caches that is locked.
pub(super) fn temporary(path: &Path) -> Result<Temporary> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}{TEMPORARY}", std::process::id()));
    let temporary = PathBuf::from(name);
    let _ = fs::remove_dir_all(&temporary);
    fs::create_dir_all(&temporary)
        .with_context(|| format!("cannot write {}", temporary.display()))?;
    Ok(Temporary(temporary))
}

impl Temporary {
    /// Gives the folder its name; what has the name already is no longer needed.
    pub(super) fn becomes(self, path: &Path) -> Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        sync_folder(&self.0).with_context(cannot)?;
        if path.exists() {
            fs::remove_dir_all(path).with_context(cannot)?;
        }
        fs::rename(&self.0, path).with_context(cannot)?;
        sync_folder(path.parent().unwrap_or(Path::new("."))).with_context(cannot)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
