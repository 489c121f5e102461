//! Trains a tokeniser on the texts of a corpus.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokenizers::models::unigram::UnigramTrainerError;
use transformer::Vocabulary;

use super::Tokenizer;
use super::config::{Texts, TokenizerConfig, TokenizerKind};
use super::untrained::{SPECIAL, untrained};
use crate::contain::contain;
use crate::error::UsageError;

impl Tokenizer {
    /// Trains a tokeniser on texts. `side` says whether they are sources, targets or both.
    ///
    /// # Errors
    ///
    /// If `texts` returns an error, if the vocabulary size is too large or too small for the texts,
    /// or if the tokeniser would have no tokens or could not encode every text.
    pub fn train(
        config: &TokenizerConfig,
        side: Texts,
        texts: impl Iterator<Item = Result<String, UsageError>> + Send,
    ) -> Result<Self, UsageError> {
        let name = side.name();
        let size = side.of(config.vocab_size);
        let (sizes, path) = (config.vocab_size, TokenizerConfig::vocab_size);
        let wrong = |expected: String| UsageError::setting(path, sizes, expected);
        let untrained = untrained(config, size).map_err(|error| wrong(error.to_string()));
        let (mut inner, mut trainer) = untrained?;
        let (failed, has_text) = (Mutex::new(None), AtomicBool::new(false));
        let texts = texts.map_while(|text| match text {
            Ok(text) => {
                has_text.fetch_or(!text.trim().is_empty(), Ordering::Relaxed);
                Some(text)
            }
            Err(error) => {
                *failed.lock().expect("no holder panics") = Some(error);
                None
            }
        });
        // The trainer of unigram tokenisers takes words in a random order, and panics in about one of
        // 200 trainings.
        let trained = contain(|| inner.train(&mut trainer, texts).map(|_| ()));
        if let Some(error) = failed.into_inner().expect("no holder panics") {
            return Err(error);
        }
        let kind = config.kind.name();
        if let Err(error) = trained {
            let blank = format!("cannot be trained: all {name} are blank");
            UsageError::check(has_text.into_inner(), TokenizerConfig::kind, kind, blank)?;
            let is_small = error == UnigramTrainerError::VocabularyTooSmall.to_string();
            let expected = format!("is too small: the {name} have more characters");
            UsageError::check(!is_small, path, sizes, expected)?;
            let expected = format!(
                "cannot be trained on the {name}: its trainer failed ({error}), which may be by chance; run the command again, or choose another kind of tokeniser"
            );
            return Err(UsageError::setting(TokenizerConfig::kind, kind, expected));
        }
        let found = inner.get_vocab_size(true);
        let expected = "the corpus has no tokens, which must occur at least twice";
        UsageError::check(found > SPECIAL, TokenizerConfig::kind, kind, expected)?;
        let expected = format!("is too small: the {name} need at least {found} tokens");
        UsageError::check(found <= size, path, sizes, expected)?;
        let expected = format!("must be at most {found}: the {name} have no more tokens");
        let or_fewer = side.of(config.or_fewer);
        UsageError::check(found >= size || or_fewer, path, size, expected)?;
        let mut json = serde_json::to_value(inner).expect("it is plain data");
        if config.kind == TokenizerKind::Unigram {
            mend_special(&mut json);
        }
        let json = serde_json::to_vec(&json).expect("it is plain data");
        Ok(Self::from_json(json, Path::new("of the corpus"))?.0)
    }
}

/// Mends what the trainer of unigram tokenisers does to special tokens. It gives them the best score,
/// so that a typed `<pad>` would be one. If texts have the name of one, the trainer also learns it as
/// a piece, whose id the special token then takes.
fn mend_special(json: &mut Value) {
    let is_special = |name: &Value| {
        Vocabulary::SPECIAL
            .iter()
            .position(|special| name == special)
    };
    for added in json["added_tokens"].as_array_mut().into_iter().flatten() {
        if let Some(id) = is_special(&added["content"]) {
            added["id"] = id.into();
        }
    }
    if let Some(vocabulary) = json["model"]["vocab"].as_array_mut() {
        let learned = vocabulary.split_off(SPECIAL);
        for token in &mut *vocabulary {
            token[1] = (-1e6).into();
        }
        let others = learned.into_iter();
        vocabulary.extend(others.filter(|token| is_special(&token[0]).is_none()));
    }
}
