//! Tokenisers, trained on a corpus or read from a `tokenizer.json` of Hugging Face.

pub mod config;
mod label;
pub mod pieces;
mod untrained;

use std::path::Path;
use std::sync::Mutex;

use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, Encoding, Tokenizer as Inner};
use transformer::Vocabulary;

pub use config::{Normalization, Texts, TokenizerConfig, TokenizerKind};
pub use pieces::Pieces;

use crate::data::sides::Sides;
use crate::error::UsageError;
use crate::files::sha256;
use crate::notes;
use untrained::{SPECIAL, untrained};

/// Translates texts into token ids and back.
pub struct Tokenizer {
    inner: Inner,
    /// Largest id plus 1.
    pub vocab_size: usize,
    /// Id of the padding token.
    pub pad_id: u32,
    /// Id of the begin symbol, the first token of every target.
    pub bos_id: u32,
    /// Id of the end symbol, the last token of sources and targets.
    pub eos_id: u32,
    /// Id of the token for everything outside the vocabulary, if there is one.
    unk_id: Option<u32>,
    /// Whether tokens are words, so that the blanks between them are lost.
    is_words: bool,
    /// SHA-256 of `json`, in hexadecimal digits.
    pub sha256: String,
    /// The tokeniser as a `tokenizer.json`.
    pub json: Vec<u8>,
}

/// Names of special tokens: those of a [`Vocabulary`], and common ones in other tokenisers.
const PAD: [&str; 3] = [Vocabulary::PAD, "[PAD]", "<|pad|>"];
const BOS: [&str; 4] = [Vocabulary::BOS, "<s>", "[BOS]", "[CLS]"];
const EOS: [&str; 5] = [Vocabulary::EOS, "</s>", "[EOS]", "[SEP]", "<|endoftext|>"];
const UNK: [&str; 3] = [Vocabulary::UNK, "[UNK]", "<|unk|>"];

/// Texts with words and characters that are in no vocabulary, unless it consists of bytes.
const STRANGE: [&str; 4] = ["\u{10fffd}", "qxzjkv", "猫 ʭ ꙮ", "~ \u{e000} 7"];

/// Maximum size of a vocabulary, which is that of a model.
const MAX_VOCAB_SIZE: usize = 1 << 24;

const ENCODES: &str = "the tokeniser encodes every text, which was tried when it was read";

impl Tokenizer {
    /// Trains a tokeniser on texts; `side` says which they are.
    ///
    /// # Errors
    ///
    /// The first error of `texts`, or a vocabulary size that is too large or too small for them.
    pub fn train(
        config: &TokenizerConfig,
        side: Texts,
        texts: impl Iterator<Item = Result<String, UsageError>> + Send,
    ) -> Result<Self, UsageError> {
        let name = side.name();
        let [source, target] = config.vocab_size.with_paths("data.tokenizer.vocab_size");
        let (path, size) = side.of(Sides { source, target });
        let wrong = |expected: String| UsageError::setting(&path, size, expected);
        let untrained = untrained(config, size).map_err(|error| wrong(error.to_string()));
        let (mut inner, mut trainer) = untrained?;
        let failed = Mutex::new(None);
        let texts = texts.map_while(|text| match text {
            Ok(text) => Some(text),
            Err(error) => {
                *failed.lock().expect("no holder panics") = Some(error);
                None
            }
        });
        let trained = inner.train(&mut trainer, texts).map(|_| ());
        if let Some(error) = failed.into_inner().expect("no holder panics") {
            return Err(error);
        }
        let too_small = format!("is too small to train a tokeniser on the {name}");
        trained.map_err(|error| wrong(format!("{too_small} ({error})")))?;
        let (found, kind) = (inner.get_vocab_size(true), config.kind.name());
        let expected = "the corpus has no tokens, which must occur at least twice";
        UsageError::check(found > SPECIAL, "data.tokenizer.kind", kind, expected)?;
        let expected = format!("is too small: the {name} need at least {found} tokens");
        UsageError::check(found <= size, &path, size, expected)?;
        let expected = format!("must be at most {found}: the {name} have no more tokens");
        let or_fewer = side.of(config.or_fewer);
        UsageError::check(found >= size || or_fewer, &path, size, expected)?;
        let json = inner.to_string(false).expect("it is plain data");
        Self::from_json(json.into_bytes(), Path::new("of the corpus"))
    }

    /// Reads a `tokenizer.json`. Adds the special tokens that it lacks.
    ///
    /// # Errors
    ///
    /// A file that is not a `tokenizer.json`, or a tokeniser that cannot encode every text.
    pub fn read(path: &Path) -> Result<Self, UsageError> {
        let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
        if path.exists() && !path.is_file() {
            return Err(wrong(
                "is not a regular file, but must be a tokenizer.json".into(),
            ));
        }
        let json = std::fs::read(path);
        let json = json.map_err(|error| wrong(format!("cannot be read ({error})")))?;
        Self::from_json(json, path)
    }

    fn from_json(mut json: Vec<u8>, path: &Path) -> Result<Self, UsageError> {
        let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
        let mut inner = Inner::from_bytes(&json)
            .map_err(|error| wrong(format!("is not a tokenizer.json of Hugging Face ({error})")))?;
        // Names of special tokens in a text are text: `<eos>` in a corpus does not end a sequence.
        inner.set_encode_special_tokens(true);
        inner.with_padding(None);
        let without = inner.with_truncation(None);
        without.map_err(|error| wrong(error.to_string()))?;
        let mut added = Vec::new();
        let mut special = |names: &[&'static str]| {
            if let Some(id) = names.iter().find_map(|name| inner.token_to_id(name)) {
                return Ok(id);
            }
            let token = AddedToken::from(names[0], true);
            let is_added = inner.add_special_tokens([token]);
            is_added.map_err(|error| wrong(error.to_string()))?;
            added.push(names[0]);
            inner
                .token_to_id(names[0])
                .ok_or_else(|| wrong(format!("cannot take {}", names[0])))
        };
        let (pad_id, bos_id, eos_id) = (special(&PAD)?, special(&BOS)?, special(&EOS)?);
        if !added.is_empty() {
            let (path, added) = (path.display(), added.join(", "));
            notes::note(&format!("tokeniser {path}: added {added}, which it lacks"));
            let with_added = inner.to_string(false).expect("it is plain data");
            json = with_added.into_bytes();
        }
        // A tokeniser without an unknown token fails for what is not in its vocabulary.
        for text in STRANGE {
            inner.encode_fast(text, false).map_err(|error| {
                let names = UNK.join(", ");
                wrong(format!(
                    "cannot encode every text ({error}): its model needs an unknown token that is in its vocabulary, such as one of {names}"
                ))
            })?;
        }
        let is_words = matches!(inner.get_model(), ModelWrapper::WordLevel(_))
            && inner.get_decoder().is_none();
        let ids = inner.get_vocab(true).into_values();
        let vocab_size = ids.max().map_or(0, |id| id as usize + 1);
        if vocab_size > MAX_VOCAB_SIZE {
            let id = vocab_size - 1;
            let what = format!("has the id {id}, but ids must be less than {MAX_VOCAB_SIZE}");
            return Err(wrong(what));
        }
        Ok(Self {
            vocab_size,
            pad_id,
            bos_id,
            eos_id,
            unk_id: UNK.iter().find_map(|name| inner.token_to_id(name)),
            is_words,
            sha256: sha256(&json),
            json,
            inner,
        })
    }

    /// Returns the ids of a text, without begin and end symbol.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let encoding = self.inner.encode_fast(text, false);
        self.ids(&encoding.expect(ENCODES))
    }

    /// Returns the ids of several texts; all threads share the work.
    pub fn encode_all(&self, texts: Vec<String>) -> Vec<Vec<u32>> {
        let encodings = self.inner.encode_batch_fast(texts, false);
        let encodings = encodings.expect(ENCODES).into_iter();
        encodings.map(|encoding| self.ids(&encoding)).collect()
    }

    /// Returns the ids without special tokens: a unigram model encodes the text `<eos>` as one.
    fn ids(&self, encoding: &Encoding) -> Vec<u32> {
        let special = [self.pad_id, self.bos_id, self.eos_id];
        let ids = encoding.get_ids().iter().copied();
        ids.filter_map(|id| match special.contains(&id) {
            true => self.unk_id,
            false => Some(id),
        })
        .collect()
    }

    /// Returns the text of some ids, without padding, begin and end symbol. It is one line.
    pub fn decode(&self, ids: &[u32]) -> String {
        let special = [self.pad_id, self.bos_id, self.eos_id];
        let ids = ids.iter().copied().filter(|id| !special.contains(id));
        let ids: Vec<u32> = ids.collect();
        let text = self.inner.decode(&ids, false).unwrap_or_default();
        // A model of bytes can generate line breaks.
        let text = text.replace(is_break, " ");
        match self.is_words {
            true => attach_punctuation(&text),
            false => text.trim().into(),
        }
    }

    /// Returns the names of all tokens: [`token`](Self::token) where that is unique, else the name
    /// in the vocabulary.
    pub fn pieces(&self) -> Pieces {
        let own = |id| self.inner.id_to_token(id).unwrap_or_default();
        Pieces::new((0..self.vocab_size as u32).map(|id| [self.token(id), own(id)]))
    }

    /// Returns the name of a token, with `▁` for blanks.
    pub fn token(&self, id: u32) -> String {
        let name = self.inner.id_to_token(id).unwrap_or_default();
        if !matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return name;
        }
        match self.inner.decode(&[id], false) {
            // A part of a character has the name of its bytes.
            Ok(text) if !text.contains(char::REPLACEMENT_CHARACTER) => text.replace(' ', "▁"),
            _ => name,
        }
    }

    /// Returns a token as people read it, for a plot: without the marks that a tokeniser has for
    /// blanks, words and their parts. Special tokens have their names, bytes that are a part of a
    /// character have hexadecimal digits.
    pub fn label(&self, id: u32) -> String {
        let name = self.inner.id_to_token(id).unwrap_or_default();
        let special = [self.pad_id, self.bos_id, self.eos_id];
        if special.contains(&id) || self.unk_id == Some(id) {
            return name;
        }
        // Decoders treat the first token of a text differently, so another one is before this one.
        let Some(&before) = self.encode("a").last() else {
            return name;
        };
        let decode = |ids: &[u32]| self.inner.decode(ids, false).unwrap_or_default();
        let both = decode(&[before, id]);
        match both.strip_prefix(&decode(&[before])) {
            Some(text) if text.contains(char::REPLACEMENT_CHARACTER) => {
                label::of_bytes(&name).unwrap_or(name)
            }
            Some(text) => label::of_text(text),
            None => name,
        }
    }

    /// Returns the id of a token by its [name](Self::token), or by its name in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        let by_name = || (0..self.vocab_size as u32).find(|&id| self.token(id) == token);
        self.inner.token_to_id(token).or_else(by_name)
    }
}

/// Whether a character ends a line or controls a terminal.
fn is_break(c: char) -> bool {
    c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)
}

/// Removes the blanks before and after punctuation, such as that in `Hello , world !`.
fn attach_punctuation(text: &str) -> String {
    const CLOSING: &str = ".,;:!?)]}%…»”’";
    const OPENING: &str = "([{«“‘¿¡";
    const BETWEEN: &str = "'-/";
    let consists_of =
        |word: &str, signs: &str| !word.is_empty() && word.chars().all(|c| signs.contains(c));
    let mut joined = String::with_capacity(text.len());
    let mut attaches = true;
    for word in text.split(' ') {
        if !attaches && !consists_of(word, CLOSING) && !consists_of(word, BETWEEN) {
            joined.push(' ');
        }
        joined.push_str(word);
        attaches = consists_of(word, OPENING) || consists_of(word, BETWEEN);
    }
    joined
}

#[cfg(test)]
mod tests;
