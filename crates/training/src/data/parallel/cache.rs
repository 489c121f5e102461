//! Tokenised corpora in files that are mapped into memory. The files may be larger than memory, and
//! a resumed run need not tokenise its training corpus again.
//!
//! - `tokens` has the ids of one sequence after the other, without begin and end symbol. An id has
//!   two bytes, or four if a vocabulary has more than 65,536 tokens.
//! - `index` has two `u64` per pair. The first is the position in `tokens` where the source
//!   begins, counted in ids. The second is the length of the source, plus the length of the target
//!   shifted left by 32 bits.
//! - `manifest.json` says what the other files were made from, and has their SHA-256. The SHA-256
//!   is verified before the files are used.

use std::fs::File;
use std::io::Write;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache_folder::{self, PAIRS};
use super::fingerprint::key;
use super::{Corpus, CorpusStats, Fingerprint, Pair, ReadOptions, Tokenizer};
use crate::files::{hex, open_regular, read_regular, sha256, write_json};
use crate::notes;

/// Version of the file format, and of the processing of texts before tokenisation.
pub(super) const FORMAT: u32 = 3;

/// Number of pairs that are tokenised at a time.
const CHUNK: usize = 8192;

const TOKENS: &str = "tokens";
const INDEX: &str = "index";
const MANIFEST: &str = "manifest.json";

/// Everything that a cache is made from. The name of the cache's folder contains a hash of these
/// fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    format: u32,
    /// Whether numbers in the files are little-endian, as on the machine that wrote them.
    little_endian: bool,
    files: Vec<Fingerprint>,
    fields: Option<[String; 2]>,
    is_table: bool,
    options: ReadOptions,
    source_tokenizer: String,
    target_tokenizer: String,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    origin: Origin,
    stats: CorpusStats,
    /// Size of the file `tokens`, in bytes.
    token_bytes: u64,
    /// Number of bytes per token id.
    width: u64,
    /// SHA-256 of `tokens` and of `index`, in hexadecimal digits.
    sha256: [String; 2],
}

/// The pairs of a corpus as token ids, in memory-mapped files.
pub struct TokenCache {
    tokens: Mapped,
    index: Mapped,
    /// Number of bytes per token id.
    width: u64,
    /// Counts of what was read from the corpus.
    pub stats: CorpusStats,
}

/// A file that is mapped into memory.
struct Mapped {
    path: PathBuf,
    file: File,
    bytes: Mmap,
}

impl Mapped {
    /// Unwinds with an error if another process has truncated the file, because reading what is no
    /// longer there would end this process by a signal.
    fn check(&self) {
        let length = self.file.metadata().map_or(0, |file| file.len());
        if length < self.bytes.len() as u64 {
            let path = self.path.display();
            let what = "was truncated while it is in use; resume the run, which makes it again";
            resume_unwind(Box::new(anyhow::anyhow!("{path} {what}")));
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl TokenCache {
    /// Opens the cache of a corpus in the folder `caches`. Makes the cache first if it does not
    /// exist or is damaged. `fingerprints` identify the files of the corpus; `tokenizers` are those
    /// of sources and of targets.
    ///
    /// # Errors
    ///
    /// If the corpus cannot be read, the folder cannot be written, or the new cache cannot be
    /// opened.
    pub fn open_or_make(
        caches: &Path,
        corpus: &Corpus,
        fingerprints: &[Fingerprint],
        options: ReadOptions,
        tokenizers: [&Tokenizer; 2],
    ) -> Result<Self> {
        let [source_tokenizer, target_tokenizer] = tokenizers.map(Tokenizer::identity);
        let origin = Origin {
            format: FORMAT,
            little_endian: cfg!(target_endian = "little"),
            files: fingerprints.to_vec(),
            fields: corpus.fields.clone(),
            is_table: corpus.target.is_none(),
            options,
            source_tokenizer,
            target_tokenizer,
        };
        cache_folder::open_or_make(
            caches,
            &format!("{PAIRS}{}", key(&origin)),
            |path| Self::open(path, &origin, tokenizers),
            |path| make(path, &origin, corpus, tokenizers),
        )
    }

    /// Opens the cache in the folder `path`. Returns `None` if the manifest cannot be read, and an
    /// error if the cache is damaged.
    fn open(path: &Path, origin: &Origin, tokenizers: [&Tokenizer; 2]) -> Result<Option<Self>> {
        let Ok(manifest) = read_regular(&path.join(MANIFEST), 16) else {
            return Ok(None);
        };
        let manifest: Manifest = serde_json::from_slice(&manifest)?;
        anyhow::ensure!(manifest.origin == *origin, "it is of another corpus");
        let cache = Self {
            tokens: map(&path.join(TOKENS))?,
            index: map(&path.join(INDEX))?,
            width: width(tokenizers),
            stats: manifest.stats,
        };
        anyhow::ensure!(manifest.width == cache.width, "its ids have another size");
        let bytes = cache.tokens.len() as u64;
        anyhow::ensure!(
            bytes == manifest.token_bytes && cache.index.len() as u64 == 16 * manifest.stats.pairs,
            "its files have other lengths than its manifest says"
        );
        let [tokens, index] = [&cache.tokens, &cache.index].map(|file| sha256(file));
        for (name, sha256, expected) in [
            (TOKENS, tokens, &manifest.sha256[0]),
            (INDEX, index, &manifest.sha256[1]),
        ] {
            anyhow::ensure!(
                sha256 == *expected,
                "its file {name} differs from its SHA-256"
            );
        }
        cache.check(tokenizers.map(|one| one.vocab_size))?;
        Ok(Some(cache))
    }

    /// Checks that all sequences are inside the file `tokens`, and that their ids are in the
    /// vocabularies.
    fn check(&self, vocab_sizes: [usize; 2]) -> Result<()> {
        let bytes = self.tokens.len() as u64;
        let is_whole = bytes.is_multiple_of(self.width);
        anyhow::ensure!(is_whole, "{bytes} bytes are not a whole number of tokens");
        let count = bytes / self.width;
        for pair in 0..self.pairs() {
            let (start, lengths) = self.entry(pair);
            let end = start.checked_add(lengths.iter().sum::<usize>() as u64);
            let is_inside = end.is_some_and(|end| end <= count);
            anyhow::ensure!(is_inside, "pair {pair} is past its end");
            let mut ids = start as usize..start as usize;
            for (length, size) in lengths.into_iter().zip(vocab_sizes) {
                ids = ids.end..ids.end + length;
                let is_known = match self.width {
                    4 => all_below(&numbers::<u32>(&self.tokens)[ids.clone()], size),
                    _ => all_below(&numbers::<u16>(&self.tokens)[ids.clone()], size),
                };
                anyhow::ensure!(is_known, "pair {pair} has an id that is not a token");
            }
        }
        Ok(())
    }

    /// Returns the number of pairs.
    pub fn pairs(&self) -> usize {
        self.index.len() / 16
    }

    /// Returns the numbers of tokens of a pair's source and target.
    pub fn lengths(&self, pair: usize) -> [usize; 2] {
        self.entry(pair).1
    }

    /// Returns the ids of a pair's source and target, without begin and end symbol.
    ///
    /// Unwinds with an [`anyhow::Error`] if the cache's files have been truncated.
    pub fn pair(&self, pair: usize) -> [Vec<u32>; 2] {
        self.tokens.check();
        self.index.check();
        let (start, [source, target]) = self.entry(pair);
        let start = start as usize;
        let ids = |start: usize, length: usize| -> Vec<u32> {
            let range = start..start + length;
            match self.width {
                4 => numbers::<u32>(&self.tokens)[range].to_vec(),
                _ => numbers::<u16>(&self.tokens)[range]
                    .iter()
                    .map(|&id| id.into())
                    .collect(),
            }
        };
        [ids(start, source), ids(start + source, target)]
    }

    /// Returns the position of a pair's source in `tokens`, and the lengths of source and target.
    fn entry(&self, pair: usize) -> (u64, [usize; 2]) {
        let entry = &numbers::<u64>(&self.index)[2 * pair..][..2];
        let lengths = [entry[1] & 0xffff_ffff, entry[1] >> 32];
        (entry[0], lengths.map(|length| length as usize))
    }
}

/// Returns the number of bytes per token id.
fn width(tokenizers: [&Tokenizer; 2]) -> u64 {
    if tokenizers.iter().any(|one| one.vocab_size > 1 << 16) {
        4
    } else {
        2
    }
}

/// Returns the bytes of a mapped file as numbers. The bytes are aligned for `T`, because the system
/// maps a file to the start of a memory page.
fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

/// Returns whether all ids are below `size`.
fn all_below<T: Copy + Into<u32>>(ids: &[T], size: usize) -> bool {
    // Without an early exit, the compiler vectorises the loop.
    let largest = ids
        .iter()
        .fold(0, |largest, &id| u32::max(largest, id.into()));
    ids.is_empty() || (largest as usize) < size
}

#[allow(unsafe_code)]
fn map(path: &Path) -> Result<Mapped> {
    // SAFETY: This library never writes to the files once their folder has its final name. If
    // another process truncates a file in the moment between `Mapped::check` and a read, this
    // process gets a bus error, as with any mapped file. If another process changes a file, its
    // bytes are still valid numbers, and bounds are checked.
    let mapped = open_regular(path).and_then(|file| {
        let bytes = unsafe { Mmap::map(&file)? };
        let path = path.into();
        Ok(Mapped { path, file, bytes })
    });
    mapped.with_context(|| path.display().to_string())
}

/// Tokenises a corpus and writes the files of its cache into `folder`.
fn make(
    folder: &Path,
    origin: &Origin,
    corpus: &Corpus,
    [source, target]: [&Tokenizer; 2],
) -> Result<()> {
    let mut pairs = corpus.read(origin.options)?;
    let width = width([source, target]);
    let cannot = || format!("cannot write {}", folder.display());
    let create = |name| File::create(folder.join(name));
    let mut tokens = create(TOKENS).with_context(cannot)?;
    let mut index = create(INDEX).with_context(cannot)?;
    let mut hashes = [Sha256::new(), Sha256::new()];
    let mut start = 0u64;
    loop {
        let chunk = pairs.by_ref().take(CHUNK);
        let chunk: Vec<Pair> = chunk.collect::<Result<_, _>>()?;
        let n = chunk.len();
        if n == 0 {
            break;
        }
        let texts = chunk.into_iter().map(|pair| (pair.source, pair.target));
        let (sources, targets) = texts.unzip();
        let ids = source.encode_all(sources).into_iter();
        let ids = ids.zip(target.encode_all(targets));
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for (source, target) in ids {
            let lengths = source.len() as u64 | (target.len() as u64) << 32;
            entries.extend([start, lengths]);
            start += (source.len() + target.len()) as u64;
            for id in source.iter().chain(&target) {
                match width {
                    4 => bytes.extend(id.to_ne_bytes()),
                    _ => bytes.extend((*id as u16).to_ne_bytes()),
                }
            }
        }
        let entries: &[u8] = bytemuck::cast_slice(&entries);
        hashes[0].update(&bytes);
        hashes[1].update(entries);
        let written = index.write_all(entries);
        let written = written.and_then(|()| tokens.write_all(&bytes));
        written.with_context(cannot)?;
        notes::progress("pairs tokenised", n);
    }
    for file in [tokens, index] {
        file.sync_all().with_context(cannot)?;
    }
    let manifest = Manifest {
        origin: origin.clone(),
        stats: pairs.stats(),
        token_bytes: start * width,
        width,
        sha256: hashes.map(|hash| hex(&hash.finalize())),
    };
    write_json(&folder.join(MANIFEST), &manifest).with_context(cannot)
}
