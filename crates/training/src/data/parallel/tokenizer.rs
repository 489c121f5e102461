//! Tokenisers, trained on a corpus or read from a `tokenizer.json` of Hugging Face.

pub mod config;
mod content;
mod engine;
mod label;
mod parts;
mod pretrained;
mod template;
mod trained;
mod untrained;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::{
    AddedToken, Decoder, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    Tokenizer as Inner,
};
use transformer::Vocabulary;

pub use config::{Normalization, Texts, TokenizerConfig, TokenizerKind};
pub(super) use parts::LONGEST_TEXT;

use crate::contain::contain;
use crate::error::UsageError;
use crate::files::{key, read_regular, sha256};
use crate::notes;
use engine::Engine;
pub use pretrained::PretrainedTokenizer;
use template::Template;

/// Translates texts into token ids and back.
pub struct Tokenizer {
    inner: Arc<Engine>,
    /// Size of the vocabulary: the largest token id plus 1 or, with the tokeniser of a pretrained
    /// model, the size of the model's vocabulary.
    pub vocab_size: usize,
    /// Id of the padding token.
    pub pad_id: u32,
    /// Id of the begin symbol, the first token of every target.
    pub bos_id: u32,
    /// Id of the end symbol, the last token of every target. Sources end with
    /// [`suffix`](Tokenizer::suffix).
    pub eos_id: u32,
    /// Id of the unknown token, which stands for everything outside the vocabulary; `None` if no
    /// token has one of the names in `UNK`.
    unk_id: Option<u32>,
    /// Whether tokens are whole words and the `tokenizer.json` has no decoder: decoding puts the
    /// blanks between words back.
    is_words: bool,
    /// Special tokens that a pretrained model needs around texts; `None` if texts have only begin
    /// and end symbols.
    template: Option<Template>,
    /// SHA-256 of `json`, in hexadecimal digits.
    pub sha256: String,
    /// Content of the tokeniser's `tokenizer.json`.
    pub json: Arc<[u8]>,
}

/// Names of the special tokens for padding, begin, end and unknown words. The first name in each
/// list is the one that a [`Vocabulary`] uses. The other names are common in other tokenisers.
const PAD: [&str; 3] = [Vocabulary::PAD, "[PAD]", "<|pad|>"];
pub(crate) const BOS: [&str; 4] = [Vocabulary::BOS, "<s>", "[BOS]", "[CLS]"];
const EOS: [&str; 5] = [Vocabulary::EOS, "</s>", "[EOS]", "[SEP]", "<|endoftext|>"];
#[doc(hidden)]
pub const UNK: [&str; 3] = [Vocabulary::UNK, "[UNK]", "<|unk|>"];

/// Texts with words and characters that most vocabularies lack. A tokeniser must be able to encode
/// them, by bytes or by an unknown token. Otherwise, it is rejected, unless it belongs to a
/// pretrained model.
const STRANGE: [&str; 4] = ["\u{10fffd}", "qxzjkv", "猫 ʭ ꙮ", "~ \u{e000} 7"];

/// Name of the file of a tokeniser.
pub(super) const JOINT: &str = "tokenizer.json";

/// Maximum size of a `tokenizer.json`, in MiB.
const LARGEST: u64 = 512;

/// Maximum size of a vocabulary. A model has the same limit.
const MAX_VOCAB_SIZE: usize = 1 << 24;

impl Tokenizer {
    /// Reads a `tokenizer.json`. Adds tokens for padding, begin and end if they are missing. Says
    /// what is done otherwise than the file says, and that there is no decoder.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a `tokenizer.json`, or needs too much memory, if its
    /// tokeniser cannot encode every text, or if a missing token cannot be added.
    pub fn read(path: &Path) -> Result<Self, UsageError> {
        let (tokenizer, off) = Self::from_json(read_json(path)?, path)?;
        let shown = path.display();
        if !off.is_empty() {
            let off = off.join(", ");
            notes::note(&format!("tokeniser {shown}: switched off here: {off}"));
        }
        let library = tokenizer.inner.library();
        if !tokenizer.is_words && library.is_some_and(|it| it.get_decoder().is_none()) {
            let what = "has no decoder: outputs are its tokens with a blank between them";
            notes::warn(&format!("tokeniser {shown}: {what}"));
        }
        Ok(tokenizer)
    }

    /// Returns a key for caches. Tokenisers with the same key give the same ids to every text.
    pub(super) fn identity(&self) -> String {
        match &self.template {
            None => self.sha256.clone(),
            Some(template) => format!("{}.{}", self.sha256, key(template)),
        }
    }

    /// Returns the token ids that end every source.
    pub fn suffix(&self) -> &[u32] {
        match &self.template {
            None => std::slice::from_ref(&self.eos_id),
            Some(template) => &template.suffix,
        }
    }

    /// Reads a `tokenizer.json` whose SHA-256 must be `hash`. A file with another SHA-256 is not
    /// parsed, but rejected with the message `otherwise`.
    ///
    /// # Errors
    ///
    /// In the same cases as [`read`](Self::read), or if the file has another SHA-256.
    pub(crate) fn read_known(path: &Path, hash: &str, otherwise: &str) -> Result<Self, UsageError> {
        let json = read_json(path)?;
        if sha256(&json) != hash {
            return Err(UsageError::new("tokeniser", path.display(), otherwise));
        }
        Ok(Self::from_json(json, path)?.0)
    }

    /// Parses the `tokenizer.json` that was read from `path`. If the tokenizers library panics, the
    /// panic is returned as an error. Also returns the names of the settings that are switched off.
    fn from_json(json: Vec<u8>, path: &Path) -> Result<(Self, Vec<&'static str>), UsageError> {
        let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
        let (inner, off) = content::parse(&json).map_err(wrong)?;
        let made = content::contained(|| Self::from_parsed(inner, json, path));
        Ok((made.map_err(wrong)??, off))
    }

    /// Returns the tokeniser of `inner`, which was parsed from `json`, the content of `path`.
    fn from_parsed(mut inner: Inner, mut json: Vec<u8>, path: &Path) -> Result<Self, UsageError> {
        let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
        let used: HashSet<u32> = inner.get_vocab(true).into_values().collect();
        let vocab_size = used.iter().max().map_or(0, |&id| id as usize + 1);
        // To write the file again, the tokenizers library needs memory for every id up to the
        // largest.
        if vocab_size > MAX_VOCAB_SIZE {
            let id = vocab_size - 1;
            let what = format!("has the id {id}, but ids must be less than {MAX_VOCAB_SIZE}");
            return Err(wrong(what));
        }
        // In a text, the name of a special token is ordinary text: `<eos>` does not end a sequence.
        inner.set_encode_special_tokens(true);
        let mut added = Vec::new();
        let mut special = |names: &[&'static str]| {
            if let Some(id) = names.iter().find_map(|name| inner.token_to_id(name)) {
                return Ok(id);
            }
            let token = AddedToken::from(names[0], true);
            let is_added = inner.add_special_tokens([token]);
            is_added.map_err(|error| wrong(error.to_string()))?;
            added.push(names[0]);
            // If the vocabulary skips ids, the library may give the new token an id that another
            // token has.
            let id = inner.token_to_id(names[0]);
            id.filter(|id| !used.contains(id))
                .ok_or_else(|| wrong(format!("cannot take {}, which it lacks", names[0])))
        };
        let (pad_id, bos_id, eos_id) = (special(&PAD)?, special(&BOS)?, special(&EOS)?);
        if !added.is_empty() {
            let (path, added) = (path.display(), added.join(", "));
            notes::note(&format!("tokeniser {path}: added {added}, which it lacks"));
            let with_added = inner.to_string(false).expect("it is plain data");
            json = with_added.into_bytes();
        }
        // A tokeniser without an unknown token may fail for words that are not in its vocabulary.
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
        let most = pad_id.max(bos_id).max(eos_id) as usize;
        Ok(Self {
            vocab_size: vocab_size.max(most + 1),
            pad_id,
            bos_id,
            eos_id,
            unk_id: UNK.iter().find_map(|name| inner.token_to_id(name)),
            is_words,
            template: None,
            sha256: sha256(&json),
            json: json.into(),
            inner: Arc::new(inner.into()),
        })
    }

    /// Returns the ids of a text, without begin and end symbol. With the tokeniser of a pretrained
    /// model, the ids begin with the special tokens that its template puts before a text. A text
    /// of more than 64 KiB, or whose normalization makes it longer than 1 MiB, is truncated, with a
    /// warning.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let whole = text.len();
        let text = parts::bounded_text(text, self.inner.library());
        if text.len() < whole {
            let (left, most) = (text.len(), LONGEST_TEXT);
            notes::warn(&format!(
                "a text of {whole} bytes is truncated to {left}: a tokeniser is given at most {most}"
            ));
        }
        let encoded = contain(|| self.inner.encode(text, self.template.is_some()));
        match encoded {
            Ok(encoded) => match &self.template {
                Some(template) => template.ids(&encoded, &self.inner),
                None => self.without_special(encoded.0),
            },
            // This is unlikely, except for the tokeniser of a pretrained model: all others have
            // encoded the texts in `STRANGE` when they were read.
            Err(error) => {
                let what = "the tokeniser cannot encode a text, which becomes the unknown token";
                notes::warn(&format!("{what} ({error})"));
                self.unk_id.into_iter().collect()
            }
        }
    }

    /// Returns the ids of several texts. All threads share the work.
    pub(crate) fn encode_all(&self, texts: Vec<String>) -> Vec<Vec<u32>> {
        let encode = |text: &String| self.encode(text);
        texts.par_iter().map(encode).collect()
    }

    /// Returns the ids of a text, without padding, begin and end symbols. A unigram model
    /// encodes the text `<eos>` as the end symbol, although the text must not end a sequence. Such
    /// a token is replaced by the unknown token, or removed if there is no unknown token.
    fn without_special(&self, ids: Vec<u32>) -> Vec<u32> {
        let known = |id: u32| Some(id).filter(|id| !self.is_special(*id)).or(self.unk_id);
        ids.into_iter().filter_map(known).collect()
    }

    /// Returns whether a token is the padding, begin or end symbol.
    fn is_special(&self, id: u32) -> bool {
        [self.pad_id, self.bos_id, self.eos_id].contains(&id)
    }

    /// Returns whether a token is the one that stands for everything outside the vocabulary.
    fn is_unknown(&self, id: u32) -> bool {
        self.unk_id == Some(id)
    }

    /// Adds how many of the tokens of a text stand for something outside the vocabulary, and how many
    /// tokens there are without padding, begin and end symbols.
    pub(super) fn count_unknown(&self, ids: &[u32], [unknown, all]: &mut [usize; 2]) {
        *unknown += ids.iter().filter(|id| self.is_unknown(**id)).count();
        *all += ids.iter().filter(|id| !self.is_special(**id)).count();
    }

    /// Returns the text of token ids, without blanks at its ends. Skips padding, begin and end symbols or, with
    /// the tokeniser of a pretrained model that no run has trained, the special tokens of its
    /// `tokenizer.json`.
    pub fn decode(&self, ids: &[u32]) -> String {
        let text = match self.template {
            Some(_) if !self.is_words => self.decoded(ids, true),
            _ => {
                let ids = Vec::from_iter(ids.iter().copied().filter(|&id| !self.is_special(id)));
                self.decoded(&ids, false)
            }
        };
        text.trim_matches(' ').into()
    }

    /// Returns unique names without blanks for all tokens, by their ids: [`token`](Self::token), if it
    /// has no white space or control character and is the name of no other token, else the name in the
    /// vocabulary. Where that has a blank, `␣` stands for it, as often as makes the name unique.
    pub fn names(&self) -> Vec<String> {
        let mut taken = HashSet::new();
        let mut is_free = |name: &str, id| {
            let owner = self.inner.token_to_id(name);
            owner.is_none_or(|owner| owner == id) && taken.insert(name.to_owned())
        };
        let name = |id| {
            let name = self.token(id);
            let own = self.inner.id_to_token(id).unwrap_or_default();
            let is_word = !name.contains(|c: char| c.is_whitespace() || c.is_control());
            if is_word && is_free(&name, id) {
                return name;
            }
            let marked = |n| own.contains(' ').then(|| own.replace(' ', &"␣".repeat(n)));
            let mut others = (1..).map_while(marked);
            others.find(|name| is_free(name, id)).unwrap_or(own.clone())
        };
        (0..self.vocab_size as u32).map(name).collect()
    }

    /// Returns the name of a token, with `▁` for blanks. In a byte-level vocabulary, it is the
    /// token's text. In other vocabularies, and for a token with an incomplete character, it is the
    /// name in the vocabulary.
    pub fn token(&self, id: u32) -> String {
        let name = self.inner.id_to_token(id).unwrap_or_default();
        let library = self.inner.library();
        let text = match library.and_then(|library| library.get_decoder()) {
            Some(DecoderWrapper::ByteLevel(_)) => self.decoded(&[id], false),
            // That of an exported folder also strips the blank before the first word.
            Some(DecoderWrapper::Sequence(all)) => match all.get_decoders() {
                [DecoderWrapper::ByteLevel(bytes), ..] => {
                    bytes.decode(vec![name.clone()]).unwrap_or(name.clone())
                }
                _ => name.clone(),
            },
            _ => name.clone(),
        };
        // A part of a character is decoded as a replacement character. Such a token keeps its name.
        if text.contains(char::REPLACEMENT_CHARACTER) {
            name
        } else {
            text.replace(' ', "▁")
        }
    }

    /// Returns the text of token ids, as the tokenizers library decodes them, without special
    /// tokens if `skips_special`. The text is empty if the library fails, and truncated if the tokens
    /// have more than 1 MiB.
    fn decoded(&self, ids: &[u32], skips_special: bool) -> String {
        let ids = parts::bounded_ids(ids, |id| self.inner.id_to_token(id));
        let text = contain(|| {
            if self.is_words {
                Ok(self.joined(ids))
            } else {
                self.inner.decode(ids, skips_special)
            }
        });
        text.unwrap_or_default()
    }

    /// Returns the text of words and punctuation. A blank is put between two tokens where encoding
    /// would remove it.
    fn joined(&self, ids: &[u32]) -> String {
        let mut text = String::new();
        let mut before = None;
        for &id in ids {
            let token = self.inner.id_to_token(id).unwrap_or_default();
            // The unknown token stands for a word.
            let word = if self.is_unknown(id) { "x" } else { &token };
            if before.is_some_and(|before: String| self.removes_blank(&before, word)) {
                text.push(' ');
            }
            text += &token;
            before = Some(word.into());
        }
        text
    }

    /// Returns whether encoding removes a blank between two tokens.
    fn removes_blank(&self, before: &str, after: &str) -> bool {
        let mut text = PreTokenizedString::from(format!("{before} {after}"));
        let library = self.inner.library();
        let split = library.and_then(|library| library.get_pre_tokenizer());
        let split = split.map(|it| it.pre_tokenize(&mut text));
        let parts = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let mut parts = parts.into_iter().map(|(_, (start, end), _)| start..end);
        split.is_none() || !parts.any(|part| part.contains(&before.len()))
    }

    /// Returns the label of a token in a plot, without the marks that tokenisers use for blanks,
    /// words and parts of words. The label of a special token, and of a part of a character, is its
    /// name in the vocabulary.
    pub fn label(&self, id: u32) -> String {
        let name = self.inner.id_to_token(id).unwrap_or_default();
        if self.is_special(id) || self.is_unknown(id) {
            return name;
        }
        // Decoders treat the first token of a text differently, so the token is decoded after
        // another one.
        let Some(&before) = self.encode("a").last() else {
            return name;
        };
        let decode = |ids: &[u32]| self.decoded(ids, false);
        let both = decode(&[before, id]);
        match both.strip_prefix(&decode(&[before])) {
            Some(text) if !text.contains(char::REPLACEMENT_CHARACTER) => label::of_text(text),
            _ => name,
        }
    }

    /// Returns the id of the token that the vocabulary lists as `token`. If there is none, returns
    /// the first id for which the method [`token`](Self::token) returns this name; `None` if there
    /// is no such id either.
    pub fn id(&self, token: &str) -> Option<u32> {
        let by_name = || (0..self.vocab_size as u32).find(|&id| self.token(id) == token);
        self.inner.token_to_id(token).or_else(by_name)
    }
}

fn read_json(path: &Path) -> Result<Vec<u8>, UsageError> {
    read_regular(path, LARGEST).map_err(|error| {
        let what = format!("cannot be read ({error})");
        UsageError::new("tokeniser", path.display(), what)
    })
}

#[cfg(test)]
mod tests;
