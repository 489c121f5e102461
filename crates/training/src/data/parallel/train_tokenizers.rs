//! The tokenisers of a new run: of a pretrained model, from files, from the cache, or trained.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::cache::FORMAT;
use super::cache_folder::{self, TOKENIZER};
use super::fingerprints::check_unchanged;
use super::held_out::HeldOut;
use super::tokenizer::config::{Texts, TokenizerConfig};
use super::tokenizer::{JOINT, PretrainedTokenizer};
use super::{Corpus, TextConfig, Tokenizer, TokenizerPair};
use crate::data::sides::Sides;
use crate::error::UsageError;
use crate::files::{key, read_regular, write_through};
use crate::notes;

/// Name of the file with the SHA-256 of a cached tokeniser.
const HASH: &str = "sha256";

/// Returns the tokenisers of a new run. A tokeniser is read from the folder of the pretrained model
/// or from the file that the settings name. If they name neither, the tokeniser is read from the folder
/// `caches`, or trained on the training corpus if that folder lacks it.
///
/// `fingerprints` identify the files of the training corpus. Pairs in `held_out` are not trained
/// on.
pub(super) fn read_or_train(
    config: &TextConfig,
    caches: &Path,
    fingerprints: &[String],
    held_out: Option<&HeldOut>,
) -> Result<TokenizerPair> {
    if let Some(model) = &config.pretrained {
        let parsed = PretrainedTokenizer::read(&model.folder)?;
        return Ok(TokenizerPair::pretrained(&parsed, model)?);
    }
    let own = &config.tokenizer;
    let get = |file: &Option<PathBuf>, texts| match file {
        Some(path) => Ok(Arc::new(Tokenizer::read(path)?)),
        None => cached_or_trained(config, caches, fingerprints, held_out, texts),
    };
    let (source, target) = (&own.source_file, &own.target_file);
    Ok(match (source, target) {
        (Some(file), Some(other)) if file == other => Sides::both(get(source, Texts::Both)?),
        (None, None) if own.joint => Sides::both(get(&None, Texts::Both)?),
        _ => Sides::new(get(source, Texts::Sources)?, get(target, Texts::Targets)?),
    })
}

fn cached_or_trained(
    config: &TextConfig,
    caches: &Path,
    fingerprints: &[String],
    held_out: Option<&HeldOut>,
    texts: Texts,
) -> Result<Arc<Tokenizer>> {
    let Corpus { fields, target, .. } = &config.train;
    // The name of the cache contains a hash of these settings. A tokeniser of sources does not
    // depend on the settings for targets, and vice versa. The hash therefore omits the settings of
    // the other side.
    let settings = TokenizerConfig {
        vocab_size: Sides::both(texts.of(config.tokenizer.vocab_size)),
        or_fewer: Sides::both(texts.of(config.tokenizer.or_fewer)),
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
        texts,
        held_out.map(|_| config.valid_share),
    );
    let name = format!("{TOKENIZER}{}", key(&origin));
    let open = |folder: &Path| -> Result<Option<Arc<Tokenizer>>> {
        let Ok(hash) = read_regular(&folder.join(HASH), 1) else {
            return Ok(None);
        };
        let hash = String::from_utf8_lossy(&hash);
        let damaged = "differs from its SHA-256";
        let tokenizer = Tokenizer::read_known(&folder.join(JOINT), hash.trim(), damaged)?;
        Ok(Some(Arc::new(tokenizer)))
    };
    cache_folder::open_or_make(caches, &name, open, |folder| {
        let tokenizer = train(config, held_out, texts)?;
        check_unchanged(&config.train, fingerprints)?;
        let hash = format!("{}\n", tokenizer.sha256);
        for (name, bytes) in [(JOINT, &tokenizer.json[..]), (HASH, hash.as_bytes())] {
            let path = folder.join(name);
            let written = write_through(&path, bytes);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    })
}

fn train(
    config: &TextConfig,
    held_out: Option<&HeldOut>,
    texts: Texts,
) -> Result<Tokenizer, UsageError> {
    let name = texts.name();
    notes::note(&format!("training a tokeniser on the {name} ..."));
    let pairs = config.train.read(config.read_options())?;
    let held_out = held_out.cloned().unwrap_or_default();
    let pairs = pairs.zip(0..);
    let pairs = pairs.filter_map(move |(pair, index)| (!held_out.has(index)).then_some(pair));
    let read = pairs.flat_map(move |pair| match (pair, texts) {
        (Ok(pair), Texts::Sources) => vec![Ok(pair.source)],
        (Ok(pair), Texts::Targets) => vec![Ok(pair.target)],
        (Ok(pair), Texts::Both) => vec![Ok(pair.source), Ok(pair.target)],
        (Err(error), _) => vec![Err(error)],
    });
    Tokenizer::train(&config.tokenizer, texts, read)
}
