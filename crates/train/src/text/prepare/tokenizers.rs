//! The tokenisers of a new run: from files, from the cache, or trained.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Files, JOINT};
use crate::output;
use crate::text::TextConfig;
use crate::text::cache::{FORMAT, key, lock, temporary};
use crate::text::corpus::Corpus;
use crate::text::tokenizer::{Tokenizer, TokenizerConfig};

/// Those that files have, and else trained ones: from the cache if they are there.
pub(super) fn tokenizers(
    config: &TextConfig,
    caches: &Path,
    files: &Files,
) -> Result<[Arc<Tokenizer>; 2]> {
    let settings = &config.tokenizer;
    let ready = [&settings.source_file, &settings.target_file];
    if let [Some(source), Some(target)] = ready {
        let source_tokenizer = Arc::new(Tokenizer::read(source)?);
        if source == target {
            return Ok([source_tokenizer.clone(), source_tokenizer]);
        }
        return Ok([source_tokenizer, Arc::new(Tokenizer::read(target)?)]);
    }
    if settings.joint {
        let both = trained(config, caches, files, Side::Both)?;
        return Ok([both.clone(), both]);
    }
    let one = |file: &Option<PathBuf>, side| match file {
        Some(path) => Ok(Arc::new(Tokenizer::read(path)?)),
        None => trained(config, caches, files, side),
    };
    Ok([
        one(&settings.source_file, Side::Source)?,
        one(&settings.target_file, Side::Target)?,
    ])
}

/// Whose texts.
#[derive(Clone, Copy, Serialize)]
enum Side {
    Source,
    Target,
    Both,
}

/// A trained tokeniser, out of the cache if it is there.
fn trained(
    config: &TextConfig,
    caches: &Path,
    files: &Files,
    side: Side,
) -> Result<Arc<Tokenizer>> {
    let Corpus { fields, target, .. } = &config.train;
    let settings = TokenizerConfig {
        source_file: None,
        target_file: None,
        ..config.tokenizer.clone()
    };
    let of = (
        FORMAT,
        &files.train,
        fields,
        target.is_some(),
        config.reading(),
        settings,
        side,
    );
    let path = caches.join(format!("tokenizer-{}", key(&of)));
    let there = || {
        let json = path.join(JOINT);
        json.exists().then(|| Tokenizer::read(&json).map(Arc::new))
    };
    if let Some(Ok(tokenizer)) = there() {
        return Ok(tokenizer);
    }
    let _lock = lock(caches)?;
    match there() {
        // Another run was faster.
        Some(Ok(tokenizer)) => return Ok(tokenizer),
        Some(Err(error)) => output::note(&format!("warning: {error}; it is trained again")),
        None => {}
    }
    let name = match side {
        Side::Source => "sources",
        Side::Target => "targets",
        Side::Both => "sources and targets",
    };
    output::note(&format!("training a tokeniser on the {name} ..."));
    let pairs = config.train.read(config.reading())?;
    let texts = pairs.flat_map(move |pair| {
        let texts = match (pair, side) {
            (Ok(pair), Side::Source) => [Some(Ok(pair.source)), None],
            (Ok(pair), Side::Target) => [Some(Ok(pair.target)), None],
            (Ok(pair), Side::Both) => [Some(Ok(pair.source)), Some(Ok(pair.target))],
            (Err(error), _) => [Some(Err(error)), None],
        };
        texts.into_iter().flatten()
    });
    let tokenizer = Tokenizer::train(&config.tokenizer, name, texts)?;
    let folder = temporary(&path)?;
    fs::write(folder.0.join(JOINT), tokenizer.json())
        .with_context(|| format!("cannot write {}", folder.0.display()))?;
    folder.becomes(&path)?;
    Ok(Arc::new(tokenizer))
}
