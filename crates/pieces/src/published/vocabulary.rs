//! Tokenisers of published models that have SentencePiece files and a vocabulary instead of a
//! `tokenizer.json`: Marian (opus-mt) and M2M100.
//!
//! SentencePiece segments a text; the ids of the pieces are those of `vocab.json`. A run keeps one
//! file with all of it, in the place of its `tokenizer.json`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::unique::Ids;
use super::{CONFIG, LISTS, SPECIAL, listed, read, read_json};
use crate::SentencePiece;

/// The first bytes of a packed file.
const MARK: &[u8] = b"{\"sentencepiece\"";

const VOCAB: &str = "vocab.json";
/// The vocabulary of the targets of a Marian model with `separate_vocabs`.
const TARGET_VOCAB: &str = "target_vocab.json";
/// The file of M2M100, for both sides.
const BOTH: &str = "sentencepiece.bpe.model";
/// The files of Marian, one a side.
const SOURCE: &str = "source.spm";
const TARGET: &str = "target.spm";

/// The languages of M2M100, in the order of their tokens, which follow the vocabulary.
const LANGUAGES: &str = "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi \
    fr fy ga gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg \
    mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl \
    tn tr uk ur uz vi wo xh yi yo zh zu";

/// The side of a pair of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is translated.
    Source,
    /// The translation.
    Target,
}

/// The tokeniser class of the library `transformers`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Class {
    Marian,
    M2m100,
}

/// The content of a packed file. SentencePiece files are in base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    sentencepiece: Class,
    source: String,
    /// The file of targets, if it is another one.
    target: Option<String>,
    vocab: Ids,
    /// The vocabulary of targets, if it is another one.
    target_vocab: Option<Ids>,
    /// Language of sources, such as `en`, if the model has several.
    source_language: Option<String>,
    /// Tokens that the folder lists as special, besides those that the class has: outputs omit them.
    special: Vec<String>,
    /// `clean_up_tokenization_spaces`.
    clean_up: bool,
}

/// Returns whether a class of the library `transformers` has SentencePiece files and a vocabulary.
pub(super) fn is_class(class: &str) -> bool {
    ["MarianTokenizer", "M2M100Tokenizer"].contains(&class)
}

/// Returns whether a folder has the files of Marian or M2M100.
pub(super) fn has_files(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    has(SOURCE) && has(TARGET) || has(BOTH) && has(VOCAB)
}

/// Returns the content of one file with the tokeniser of a folder, and the tokeniser; `None` if the
/// folder lacks the SentencePiece files of a known class.
///
/// # Errors
///
/// The name of the file that cannot be used, and the reason.
pub(super) fn packed(folder: &Path) -> Result<Option<(Vec<u8>, PieceTokenizer)>, String> {
    let has = |name: &str| folder.join(name).exists();
    let (class, source, target) = if has(SOURCE) && has(TARGET) {
        (Class::Marian, SOURCE, Some(TARGET))
    } else if has(BOTH) && has(VOCAB) {
        (Class::M2m100, BOTH, None)
    } else if let Some(missing) = [SOURCE, TARGET].into_iter().find(|name| !has(name))
        && (has(SOURCE) || has(TARGET))
    {
        let other = if missing == SOURCE { TARGET } else { SOURCE };
        return Err(format!("{other}, but no {missing}"));
    } else {
        return Ok(None);
    };
    let of = |name: &str, error: &dyn std::fmt::Display| format!("{name}: {error}");
    let file = |name: &str| read(&folder.join(name)).map_err(|what| of(name, &what));
    let model = |name: &str| {
        let bytes = file(name)?;
        SentencePiece::from_bytes(&bytes).map_err(|error| of(name, &error))?;
        Ok::<_, String>(BASE64_STANDARD.encode(bytes))
    };
    let plain = |name: &str| read_json(&folder.join(name)).map_err(|what| of(name, &what));
    let (config, special): (Value, Value) = (plain(CONFIG)?, plain(SPECIAL)?);
    let mut expected = vec![("sp_model_kwargs", json!({}))];
    if class == Class::M2m100 {
        expected.push(("language_codes", "m2m100".into()));
    }
    for (name, expected) in expected {
        let value = &config[name];
        if !value.is_null() && *value != expected {
            let what = format!("{name} is {value}, but only {expected} is supported");
            return Err(of(CONFIG, &what));
        }
    }
    let vocabulary = |name: &str| {
        let ids = serde_json::from_slice::<Ids>(&file(name)?);
        ids.map_err(|error| of(name, &error))
    };
    let separate = match &config["separate_vocabs"] {
        Value::Bool(true) if class == Class::Marian && !has(TARGET_VOCAB) => {
            let what = format!("separate_vocabs is true, but there is no {TARGET_VOCAB}");
            return Err(of(CONFIG, &what));
        }
        Value::Bool(is_separate) => *is_separate && class == Class::Marian,
        Value::Null => false,
        other => {
            let what = format!("separate_vocabs is {other}, but it must be true or false");
            return Err(of(CONFIG, &what));
        }
    };
    let lists = [&config, &special].into_iter();
    let lists = lists.flat_map(|file| LISTS.map(|name| &file[name]));
    let language = config["src_lang"].as_str().unwrap_or("en");
    if class == Class::M2m100 && !LANGUAGES.split_whitespace().any(|code| code == language) {
        let what = format!("src_lang is {language:?}, but must be a code such as \"en\"");
        return Err(of(CONFIG, &what));
    }
    let packed = Packed {
        sentencepiece: class,
        source: model(source)?,
        target: target.map(model).transpose()?,
        vocab: vocabulary(VOCAB)?,
        target_vocab: separate.then(|| vocabulary(TARGET_VOCAB)).transpose()?,
        source_language: (class == Class::M2m100).then(|| language.into()),
        special: lists.flat_map(listed).map(String::from).collect(),
        clean_up: config["clean_up_tokenization_spaces"] == true,
    };
    let bytes = serde_json::to_vec(&packed).expect("it is plain data");
    let tokenizer = PieceTokenizer::parse_packed(&bytes)?;
    for (file, fields) in [(CONFIG, &config), (SPECIAL, &special)] {
        for field in LISTS {
            let unknown = listed(&fields[field]).find(|name| tokenizer.id(name).is_none());
            if let Some(name) = unknown {
                return Err(of(
                    file,
                    &format!("{field} has {name}, which {VOCAB} lacks"),
                ));
            }
        }
    }
    Ok(Some((bytes, tokenizer)))
}

/// Returns the names and contents of the files that [`tokenizer_of`](super::tokenizer_of) has read; `None` if
/// `json` is not what it returned for Marian or M2M100. `language`, a token such as `__en__`, replaces
/// the language of sources.
pub fn unpacked(json: &[u8], language: Option<&str>) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let file: Packed = json
        .starts_with(MARK)
        .then(|| serde_json::from_slice(json).ok())??;
    let decode = |base64: &String| BASE64_STANDARD.decode(base64).ok();
    let plain = |value: &Value| serde_json::to_vec_pretty(value).expect("it is plain data");
    let mut config = json!({
        "additional_special_tokens": file.special,
        "clean_up_tokenization_spaces": file.clean_up,
    });
    let mut files = match file.sentencepiece {
        Class::Marian => {
            config["tokenizer_class"] = "MarianTokenizer".into();
            let target = decode(file.target.as_ref()?)?;
            let mut files = vec![(SOURCE, decode(&file.source)?), (TARGET, target)];
            if let Some(ids) = &file.target_vocab {
                config["separate_vocabs"] = true.into();
                files.push((TARGET_VOCAB, plain(&json!(ids))));
            }
            files
        }
        Class::M2m100 => {
            config["tokenizer_class"] = "M2M100Tokenizer".into();
            let language = language.map(|token| token.trim_matches('_').to_owned());
            config["src_lang"] = language.or(file.source_language).into();
            vec![(BOTH, decode(&file.source)?)]
        }
    };
    files.push((VOCAB, plain(&json!(file.vocab))));
    files.push((CONFIG, plain(&config)));
    Some(files)
}

/// A SentencePiece model for each side, with the ids of a vocabulary.
#[derive(Clone)]
pub struct PieceTokenizer {
    class: Class,
    source: Arc<SentencePiece>,
    target: Arc<SentencePiece>,
    side: Side,
    source_vocabulary: Arc<Vocabulary>,
    target_vocabulary: Arc<Vocabulary>,
    special: Arc<HashSet<u32>>,
    unk_id: u32,
    eos_id: u32,
    /// Token before every source, if the model has several languages.
    language: Option<u32>,
    clean_up: bool,
}

/// The ids of tokens, both ways.
struct Vocabulary {
    ids: HashMap<String, u32>,
    names: HashMap<u32, String>,
}

impl Vocabulary {
    /// Returns the vocabulary of a file; an error if two tokens have one id.
    fn new(ids: Ids, file: &str) -> Result<Self, String> {
        let mut names: HashMap<u32, String> = HashMap::new();
        for (name, &id) in &ids.0 {
            if let Some(other) = names.insert(id, name.clone()) {
                return Err(format!("{file}: {other} and {name} both have the id {id}"));
            }
        }
        let ids = ids.0.into_iter().collect();
        Ok(Self { ids, names })
    }
}

impl PieceTokenizer {
    /// Reads the content that [`tokenizer_of`](super::tokenizer_of) returned for Marian and M2M100; `None` if it
    /// is the content of another file.
    ///
    /// # Errors
    ///
    /// The reason why the content cannot be used.
    pub fn parse(json: &[u8]) -> Option<Result<Self, String>> {
        json.starts_with(MARK).then(|| Self::parse_packed(json))
    }

    fn parse_packed(json: &[u8]) -> Result<Self, String> {
        let file: Packed = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let model = |base64: &String| {
            let bytes = BASE64_STANDARD
                .decode(base64)
                .map_err(|error| error.to_string())?;
            let model = SentencePiece::from_bytes(&bytes).map_err(|error| error.to_string())?;
            Ok::<_, String>(Arc::new(model))
        };
        let source = model(&file.source)?;
        let target = match &file.target {
            Some(target) => model(target)?,
            None => source.clone(),
        };
        let mut ids = file.vocab.0;
        let id = |ids: &BTreeMap<String, u32>, token: &str| {
            let found = ids.get(token).copied();
            found.ok_or_else(|| format!("{VOCAB}: there is no token {token}"))
        };
        let (unk_id, eos_id) = (id(&ids, "<unk>")?, id(&ids, "</s>")?);
        let mut special = HashSet::from([unk_id, eos_id, id(&ids, "<pad>")?]);
        let mut language = None;
        if file.sentencepiece == Class::M2m100 {
            special.extend(ids.get("<s>"));
            let first = u32::try_from(ids.len()).map_err(|error| error.to_string())?;
            for (index, code) in (first..).zip(LANGUAGES.split_whitespace()) {
                ids.insert(format!("__{code}__"), index);
            }
            let name = format!("__{}__", file.source_language.as_deref().unwrap_or("en"));
            language = Some(id(&ids, &name)?);
        }
        special.extend(file.special.iter().filter_map(|token| ids.get(token)));
        let target_vocabulary = match file.target_vocab {
            Some(target) => {
                // `config.json` has one id for both sides.
                for token in ["<unk>", "</s>", "<pad>"] {
                    if ids.get(token) != target.0.get(token) {
                        return Err(format!(
                            "{TARGET_VOCAB} and {VOCAB} with different ids of {token}"
                        ));
                    }
                }
                Some(Arc::new(Vocabulary::new(target, TARGET_VOCAB)?))
            }
            None => None,
        };
        let source_vocabulary = Arc::new(Vocabulary::new(Ids(ids), VOCAB)?);
        Ok(Self {
            class: file.sentencepiece,
            source,
            target,
            side: Side::Source,
            target_vocabulary: target_vocabulary.unwrap_or_else(|| source_vocabulary.clone()),
            source_vocabulary,
            special: special.into(),
            unk_id,
            eos_id,
            language,
            clean_up: file.clean_up,
        })
    }

    /// Returns the tokeniser of one side.
    pub fn of(&self, side: Side) -> Self {
        Self {
            side,
            ..self.clone()
        }
    }

    /// Encodes a text: its ids, and for each whether it is a special token around the text. With
    /// the template, these are the language of the model and the end symbol.
    pub fn encode(&self, text: &str, with_template: bool) -> (Vec<u32>, Vec<bool>) {
        // A text for a Marian model of several target languages begins with `>>fra<<`.
        let code = match self.class {
            Class::Marian if text.starts_with(">>") => text.find("<<").map_or(0, |place| place + 2),
            _ => 0,
        };
        let (code, rest) = text.split_at(code);
        let model = match self.side {
            Side::Target => &self.target,
            Side::Source => &self.source,
        };
        let own = |token: &str| self.id(token).unwrap_or(self.unk_id);
        let mut ids: Vec<u32> = (!code.is_empty()).then(|| own(code)).into_iter().collect();
        ids.extend(model.encode(rest).iter().map(|piece| own(&piece.text)));
        let mut is_special = vec![false; ids.len()];
        if with_template {
            if let Some(language) = self.language {
                ids.insert(0, language);
                is_special.insert(0, true);
            }
            ids.push(self.eos_id);
            is_special.push(true);
        }
        (ids, is_special)
    }

    fn vocabulary(&self) -> &Vocabulary {
        match self.side {
            Side::Source => &self.source_vocabulary,
            Side::Target => &self.target_vocabulary,
        }
    }

    /// Returns the text of tokens. As in the library `transformers`, Marian's model of sources
    /// decodes targets, too, if both sides have one vocabulary.
    pub fn decode(&self, ids: &[u32], skips_special: bool) -> String {
        let shown = ids
            .iter()
            .filter(|id| !skips_special || !self.special.contains(id));
        let names: Vec<&str> = shown.filter_map(|&id| self.token(id)).collect();
        let is_joint = Arc::ptr_eq(&self.source_vocabulary, &self.target_vocabulary);
        let model = match self.side {
            Side::Target if !is_joint => &self.target,
            _ => &self.source,
        };
        let text = model.decode_pieces(&names).replace('▁', " ");
        let text = text.trim();
        if self.clean_up {
            cleaned(text)
        } else {
            text.into()
        }
    }

    /// Returns the name of a token.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocabulary().names.get(&id).map(String::as_str)
    }

    /// Returns the id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.vocabulary().ids.get(token).copied()
    }

    /// Returns whether [`decode`](Self::decode) may skip a token.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// Returns the largest id of a token that a text may have; `None` if there are no such tokens.
    pub fn largest_id(&self) -> Option<u32> {
        let ids = self.vocabulary().ids.values().copied();
        ids.filter(|&id| !self.is_special(id)).max()
    }

    /// Returns all tokens with their ids, in any order.
    pub fn tokens(&self) -> impl Iterator<Item = (String, u32)> {
        let ids = self.vocabulary().ids.iter();
        ids.map(|(token, &id)| (token.clone(), id))
    }
}

/// What `clean_up_tokenization_spaces` replaces, in this order.
pub(super) const CLEANED: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

fn cleaned(text: &str) -> String {
    let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    CLEANED.iter().fold(text.into(), replace)
}
