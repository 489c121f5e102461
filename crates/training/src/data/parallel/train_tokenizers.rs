//! The tokenisers of a new run: from files, from the cache, or trained.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Serialize;

use super::cache::FORMAT;
use super::cache_folder::{self, TOKENIZER};
use super::fingerprint::key;
use super::tokenizer::config::TokenizerConfig;
use super::tokenizer_pair::JOINT;
use super::{Corpus, Fingerprint, TextConfig, Tokenizer, TokenizerPair};
use crate::error::UsageError;
use crate::notes;

/// Reads the tokenisers that the settings name and trains the others on the training corpus, unless
/// the folder of caches has them. `fingerprints` are those of the training corpus.
pub(super) fn read_or_train(
    config: &TextConfig,
    caches: &Path,
    fingerprints: &[Fingerprint],
) -> Result<TokenizerPair> {
    let TokenizerConfig {
        source_file,
        target_file,
        joint,
        ..
    } = &config.tokenizer;
    let get = |file: &Option<PathBuf>, side| match file {
        Some(path) => Ok(Arc::new(Tokenizer::read(path)?)),
        None => cached_or_trained(config, caches, fingerprints, side),
    };
    let (source, target) = match (source_file, target_file) {
        (Some(source), Some(target)) if source == target => {
            let both = get(source_file, Side::Both)?;
            (both.clone(), both)
        }
        (None, _) | (_, None) if *joint => {
            let both = get(&None, Side::Both)?;
            (both.clone(), both)
        }
        _ => (
            get(source_file, Side::Source)?,
            get(target_file, Side::Target)?,
        ),
    };
    Ok(TokenizerPair::new(source, target)?)
}

/// The texts that a tokeniser is trained on.
#[derive(Clone, Copy, Serialize)]
enum Side {
    Source,
    Target,
    Both,
}

fn cached_or_trained(
    config: &TextConfig,
    caches: &Path,
    fingerprints: &[Fingerprint],
    side: Side,
) -> Result<Arc<Tokenizer>> {
    let Corpus { fields, target, .. } = &config.train;
    let settings = TokenizerConfig {
        source_file: None,
        target_file: None,
        ..config.tokenizer.clone()
    };
    let origin = (
        FORMAT,
        fingerprints,
        fields,
        target.is_some(),
        config.read_options(),
        settings,
        side,
    );
    let name = format!("{TOKENIZER}{}", key(&origin));
    let open = |folder: &Path| -> Result<Option<Arc<Tokenizer>>> {
        let json = folder.join(JOINT);
        let tokenizer = json.exists().then(|| Tokenizer::read(&json));
        Ok(tokenizer.transpose()?.map(Arc::new))
    };
    cache_folder::open_or_make(caches, &name, open, |folder| {
        let path = folder.join(JOINT);
        let tokenizer = train(config, side)?;
        let written = fs::write(&path, &tokenizer.json);
        written.with_context(|| format!("cannot write {}", path.display()))
    })
}

fn train(config: &TextConfig, side: Side) -> Result<Tokenizer, UsageError> {
    let name = match side {
        Side::Source => "sources",
        Side::Target => "targets",
        Side::Both => "sources and targets",
    };
    notes::note(&format!("training a tokeniser on the {name} ..."));
    let pairs = config.train.read(config.read_options())?;
    let texts = pairs.flat_map(move |pair| match (pair, side) {
        (Ok(pair), Side::Source) => vec![Ok(pair.source)],
        (Ok(pair), Side::Target) => vec![Ok(pair.target)],
        (Ok(pair), Side::Both) => vec![Ok(pair.source), Ok(pair.target)],
        (Err(error), _) => vec![Err(error)],
    });
    Tokenizer::train(&config.tokenizer, name, texts)
}
