//! Tokenisers: trained on a corpus, or read from a `tokenizer.json` as Hugging Face writes it.

mod config;
mod untrained;

use std::path::Path;
use std::sync::Mutex;

use sha2::{Digest, Sha256};
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, Encoding, Tokenizer as Inner};
use transformer::Vocabulary;

pub use config::{Normalization, TokenizerConfig, TokenizerKind};

use super::corpus::hex;
use crate::error::UsageError;
use crate::output;
use untrained::{SPECIAL, untrained};

/// Texts to ids and back.
pub struct Tokenizer {
    inner: Inner,
    vocab_size: usize,
    pad_id: u32,
    bos_id: u32,
    eos_id: u32,
    /// What has no token, if there is one for that.
    unk_id: Option<u32>,
    /// Whether tokens are words, between which blanks were lost.
    is_words: bool,
    sha256: String,
    json: Vec<u8>,
}

/// Names of special tokens: ours, and those that others have.
const PAD: [&str; 3] = [Vocabulary::PAD, "[PAD]", "<|pad|>"];
const BOS: [&str; 4] = [Vocabulary::BOS, "<s>", "[BOS]", "[CLS]"];
const EOS: [&str; 5] = [Vocabulary::EOS, "</s>", "[EOS]", "[SEP]", "<|endoftext|>"];
const UNK: [&str; 3] = [Vocabulary::UNK, "[UNK]", "<|unk|>"];

/// Texts that no vocabulary of words, pieces or characters has all of.
const STRANGE: [&str; 4] = ["\u{10fffd}", "qxzjkv", "猫 ʭ ꙮ", "~ \u{e000} 7"];

/// Why a text has tokens.
const TRIED: &str = "the tokeniser was tried when it was read";

impl Tokenizer {
    /// Trains one on texts; `name` says whose, in errors.
    ///
    /// # Errors
    ///
    /// An error of the texts, or a vocabulary that they do not have.
    pub fn train<E: Send>(
        config: &TokenizerConfig,
        name: &str,
        texts: impl Iterator<Item = Result<String, E>> + Send,
    ) -> Result<Self, UsageError>
    where
        UsageError: From<E>,
    {
        let size = config.vocab_size;
        let refuse = |expected: String| UsageError::new("--vocab-size", size, expected);
        let (mut inner, mut trainer) =
            untrained(config).map_err(|error| refuse(error.to_string()))?;
        let failed = Mutex::new(None);
        let texts = texts.map_while(|text| match text {
            Ok(text) => Some(text),
            Err(error) => {
                *failed.lock().expect("nobody panics with it") = Some(error);
                None
            }
        });
        let trained = inner.train(&mut trainer, texts).map(|_| ());
        if let Some(error) = failed.into_inner().expect("nobody panics with it") {
            return Err(error.into());
        }
        trained.map_err(|error| {
            refuse(format!(
                "makes no tokeniser of the {name} ({error}); must be larger"
            ))
        })?;
        let found = inner.get_vocab_size(true);
        if found <= SPECIAL {
            let expected = "the corpus has no tokens: of words, only those that stand there twice";
            return Err(UsageError::new("--tokenizer", "", expected));
        }
        if found > size {
            let expected =
                format!("is too small: the {name} have {found} tokens that cannot be left out");
            return Err(refuse(expected));
        }
        if found < size && !config.or_fewer {
            let expected = format!("must be at most {found}: the {name} have no more tokens");
            return Err(refuse(expected));
        }
        let json = inner.to_string(false).expect("it is plain data");
        Self::from_json(json.as_bytes(), Path::new("--tokenizer"))
    }

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// A file that is none, or that cannot take every text. Special tokens that it lacks are added.
    pub fn read(path: &Path) -> Result<Self, UsageError> {
        if path.exists() && !path.is_file() {
            let what = "is no plain file, but must be a tokenizer.json";
            return Err(UsageError::new("tokeniser", path.display(), what));
        }
        let json = std::fs::read(path).map_err(|error| {
            let what = format!("cannot be read ({error})");
            UsageError::new("tokeniser", path.display(), what)
        })?;
        Self::from_json(&json, path)
    }

    fn from_json(json: &[u8], path: &Path) -> Result<Self, UsageError> {
        let refuse = |what: String| UsageError::new("tokeniser", path.display(), what);
        let mut inner = Inner::from_bytes(json).map_err(|error| {
            refuse(format!(
                "is no tokenizer.json as Hugging Face writes it ({error})"
            ))
        })?;
        // A text is a text, whatever it says: `<eos>` in a corpus ends nothing.
        inner.set_encode_special_tokens(true);
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| refuse(error.to_string()))?;
        let mut added = Vec::new();
        let mut special = |names: &[&'static str]| {
            if let Some(id) = names.iter().find_map(|name| inner.token_to_id(name)) {
                return Ok(id);
            }
            let token = AddedToken::from(names[0], true);
            let is_added = inner.add_special_tokens([token]);
            is_added.map_err(|error| refuse(error.to_string()))?;
            added.push(names[0]);
            inner
                .token_to_id(names[0])
                .ok_or_else(|| refuse(format!("cannot take {}", names[0])))
        };
        let (pad_id, bos_id, eos_id) = (special(&PAD)?, special(&BOS)?, special(&EOS)?);
        let mut json = json.to_vec();
        if !added.is_empty() {
            let (path, added) = (path.display(), added.join(", "));
            output::note(&format!(
                "tokeniser {path}: has no {added}, which are added to it"
            ));
            json = inner
                .to_string(false)
                .expect("it is plain data")
                .into_bytes();
        }
        // Refused for want of a token for what is not in the vocabulary, whatever that is.
        for text in STRANGE {
            inner.encode_fast(text, false).map_err(|error| {
                let names = UNK.join(", ");
                refuse(format!(
                    "cannot take every text ({error}): its model needs an unknown token that is in its vocabulary, such as one of {names}"
                ))
            })?;
        }
        let is_words = matches!(inner.get_model(), ModelWrapper::WordLevel(_))
            && inner.get_decoder().is_none();
        let ids = inner.get_vocab(true).into_values();
        Ok(Self {
            vocab_size: ids.max().map_or(0, |id| id as usize + 1),
            pad_id,
            bos_id,
            eos_id,
            unk_id: UNK.iter().find_map(|name| inner.token_to_id(name)),
            is_words,
            sha256: hex(&Sha256::digest(&json)),
            json,
            inner,
        })
    }

    /// The file, as it was read or trained.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// What tells it from others.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The id that fills short sequences up.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    /// The first token of every target.
    pub fn bos_id(&self) -> u32 {
        self.bos_id
    }

    /// The last token of sources and targets.
    pub fn eos_id(&self) -> u32 {
        self.eos_id
    }

    /// The ids of a text, without begin and end.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let encoding = self.inner.encode_fast(text, false);
        self.ids(&encoding.expect(TRIED))
    }

    /// The ids of several texts, by all threads.
    pub fn encode_all(&self, texts: Vec<String>) -> Vec<Vec<u32>> {
        let encodings = self.inner.encode_batch_fast(texts, false);
        let encodings = encodings.expect(TRIED);
        encodings
            .iter()
            .map(|encoding| self.ids(encoding))
            .collect()
    }

    /// No text begins or ends by itself: a unigram model would take `<eos>` for its own.
    fn ids(&self, encoding: &Encoding) -> Vec<u32> {
        let special = [self.pad_id, self.bos_id, self.eos_id];
        let ids = encoding.get_ids().iter().copied();
        ids.filter_map(|id| match special.contains(&id) {
            true => self.unk_id,
            false => Some(id),
        })
        .collect()
    }

    /// The text of some ids; padding, begin and end are left out.
    pub fn decode(&self, ids: &[u32]) -> String {
        let special = [self.pad_id, self.bos_id, self.eos_id];
        let ids: Vec<u32> = ids
            .iter()
            .copied()
            .filter(|id| !special.contains(id))
            .collect();
        let text = self.inner.decode(&ids, false).unwrap_or_default();
        // Bytes can be line breaks, too, but a text is one line.
        let text = text.replace(is_break, " ");
        match self.is_words {
            true => attach_punctuation(&text),
            false => text.trim().into(),
        }
    }

    /// The name of a token; `▁` stands for a blank, also where the vocabulary has bytes.
    pub fn token(&self, id: u32) -> String {
        let name = self.inner.id_to_token(id).unwrap_or_default();
        if !matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return name;
        }
        match self.inner.decode(&[id], false) {
            // A part of a character has no other name than that of its bytes.
            Ok(text) if !text.contains(char::REPLACEMENT_CHARACTER) => text.replace(' ', "▁"),
            _ => name,
        }
    }

    /// The id of a token, by this name or the one that the vocabulary has.
    pub fn id(&self, token: &str) -> Option<u32> {
        let by_name = || (0..self.vocab_size as u32).find(|&id| self.token(id) == token);
        self.inner.token_to_id(token).or_else(by_name)
    }
}

/// Whether a character ends a line, or is one for a terminal.
fn is_break(c: char) -> bool {
    c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)
}

/// Words and punctuation with a blank between all of them, written as people do.
fn attach_punctuation(text: &str) -> String {
    const CLOSING: &str = ".,;:!?)]}%…»”’";
    const OPENING: &str = "([{«“‘¿¡";
    const BETWEEN: &str = "'-/";
    let made_of = |word: &str, of: &str| !word.is_empty() && word.chars().all(|c| of.contains(c));
    let mut joined = String::with_capacity(text.len());
    let mut attaches = true;
    for word in text.split(' ') {
        if !attaches && !made_of(word, CLOSING) && !made_of(word, BETWEEN) {
            joined.push(' ');
        }
        joined.push_str(word);
        attaches = made_of(word, OPENING) || made_of(word, BETWEEN);
    }
    joined
}

#[cfg(test)]
mod tests;
