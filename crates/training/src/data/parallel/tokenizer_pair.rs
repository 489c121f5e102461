//! The tokenisers of sources and targets.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pieces::published::Side;

use super::config::TextConfig;
use super::corpus::Pair;
use super::pretrained::PretrainedConfig;
use super::tokenizer::{JOINT, PretrainedTokenizer, Tokenizer};
use crate::data::codec::{Codec, EncodeError, UnknownCounts, Vocabularies};
use crate::data::sides::Sides;
use crate::error::UsageError;
use crate::files::{remove_file, replace_whole};

/// Names of the tokeniser files in a run's folder: one file for sources and one for targets, or
/// [`JOINT`] for both.
const SOURCE: &str = "source.tokenizer.json";
const TARGET: &str = "target.tokenizer.json";

const OTHER: &str = "is not the tokeniser that the model was trained with: put that back";

/// The tokenisers of sources and targets, which may be the same. As a [`Codec`], the pair can
/// encode every text, and appends [`Tokenizer::suffix`], usually the end symbol, to sources.
pub type TokenizerPair = Sides<Arc<Tokenizer>>;

impl TokenizerPair {
    /// Returns the tokenisers of a pretrained model.
    ///
    /// # Errors
    ///
    /// In the same cases as [`Tokenizer::pretrained`].
    pub fn pretrained(
        parsed: &PretrainedTokenizer,
        model: &PretrainedConfig,
    ) -> Result<Self, UsageError> {
        let target = Tokenizer::pretrained(parsed, model, Side::Target)?;
        let source = Tokenizer::pretrained(parsed, model, Side::Source)?;
        Ok(Self::new(source.into(), target.into()))
    }

    /// Reads the tokenisers of a run from its folder. `config` has the run's settings.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, its tokeniser cannot be used or does not fit the pretrained model,
    /// or its hash is not that of `config`.
    pub fn of_run(run: &Path, config: &TextConfig) -> Result<Self, UsageError> {
        let Some([source, target]) = &config.tokenizer_sha256 else {
            let expected = "must have the hash of each tokeniser: put it back, as in the config.json \
                of one of the run's checkpoints";
            return Err(UsageError::setting(
                TextConfig::tokenizer_sha256,
                "null",
                expected,
            ));
        };
        if let Some(model) = &config.pretrained {
            let parsed = PretrainedTokenizer::read(run)?;
            if parsed.sha256 != *source {
                let path = run.join(JOINT);
                return Err(UsageError::new("tokeniser", path.display(), OTHER));
            }
            return Self::pretrained(&parsed, model);
        }
        let read = |name: &str, sha256: &str| {
            Tokenizer::read_known(&run.join(name), sha256, OTHER).map(Arc::new)
        };
        if source == target {
            return Ok(Self::both(read(JOINT, source)?));
        }
        Ok(Self::new(read(SOURCE, source)?, read(TARGET, target)?))
    }

    /// Returns the token ids of a pair's source and of its target, without begin and end symbols.
    pub fn encode(&self, pair: &Pair) -> [Vec<u32>; 2] {
        [
            self.source.encode(&pair.source),
            self.target.encode(&pair.target),
        ]
    }

    /// Writes the tokenisers into a run's folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn save(&self, run: &Path) -> Result<()> {
        let is_joint = self.source.sha256 == self.target.sha256;
        let files = [
            (JOINT, is_joint.then_some(&self.source)),
            (SOURCE, (!is_joint).then_some(&self.source)),
            (TARGET, (!is_joint).then_some(&self.target)),
        ];
        for (name, tokenizer) in files {
            let path = run.join(name);
            let written = match tokenizer {
                Some(tokenizer) => replace_whole(&path, &tokenizer.json),
                // An earlier run in this folder, killed before its training began, may have left a
                // file of this name.
                None => remove_file(&path),
            };
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Returns the SHA-256 of the source tokeniser and of the target tokeniser, in hexadecimal
    /// digits.
    pub fn sha256(&self) -> [String; 2] {
        [&self.source, &self.target].map(|tokenizer| tokenizer.sha256.clone())
    }
}

impl Codec for TokenizerPair {
    fn vocabularies(&self) -> Vocabularies {
        Vocabularies {
            source_size: self.source.vocab_size,
            target_size: self.target.vocab_size,
            pad_ids: Sides::new(self.source.pad_id, self.target.pad_id),
            bos_id: self.target.bos_id,
            eos_id: Some(self.target.eos_id),
        }
    }

    fn encode_source(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let mut ids = self.source.encode(text);
        ids.extend(self.source.suffix());
        Ok(ids)
    }

    fn encode_target(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        Ok(self.target.encode(text))
    }

    fn decode_source(&self, ids: &[u32]) -> String {
        self.source.decode(ids)
    }

    fn decode_target(&self, ids: &[u32]) -> String {
        self.target.decode(ids)
    }

    fn source_token(&self, id: u32) -> String {
        self.source.token(id)
    }

    fn target_token(&self, id: u32) -> String {
        self.target.token(id)
    }

    fn source_label(&self, id: u32) -> String {
        self.source.label(id)
    }

    fn target_label(&self, id: u32) -> String {
        self.target.label(id)
    }

    fn count_unknown(&self, texts: [&[u32]; 2], counts: &mut UnknownCounts) {
        self.source.count_unknown(texts[0], &mut counts[0]);
        self.target.count_unknown(texts[1], &mut counts[1]);
    }

    fn target_id(&self, name: &str) -> Result<u32, EncodeError> {
        self.target.id(name).ok_or_else(|| EncodeError {
            word: name.into(),
            symbols: format!("a vocabulary of {}", self.target.vocab_size),
        })
    }
}
