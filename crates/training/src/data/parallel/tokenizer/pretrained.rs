//! Tokenisers of pretrained models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pieces::published::{FolderError, Side, is_language, tokenizer_of};

use super::engine::Engine;
use super::template::{Language, Template, no_language};
use super::untrained::is_of_words;
use super::{JOINT, PAD, Tokenizer, UNK};
use crate::contain::contain;
use crate::data::parallel::pretrained::PretrainedConfig;
use crate::error::UsageError;
use crate::files::sha256;
use crate::notes;

impl Tokenizer {
    /// Returns the tokeniser of a pretrained model for sources or for targets.
    ///
    /// # Errors
    ///
    /// If the tokeniser cannot encode a text, has tokens that the model does not have, lacks the
    /// model's padding token or end symbol, pads or ends texts with other tokens than the model, or
    /// lacks the language of the texts.
    pub fn pretrained(
        parsed: &PretrainedTokenizer,
        model: &PretrainedConfig,
        side: Side,
    ) -> Result<Self, UsageError> {
        let wrong = |what: String| UsageError::new("tokeniser", parsed.path.display(), what);
        let (inner, largest_id) = parsed.of(side);
        let what = "cannot end texts: the model has no eos_token_id";
        let end_id = model.search.eos_id.ok_or_else(|| wrong(what.into()))?;
        let size = match side {
            Side::Source => model.vocab_size.source,
            Side::Target => model.vocab_size.target,
        };
        if let Some(id) = largest_id.filter(|&id| id as usize >= size) {
            let what = format!("has the token id {id}, but the model has {size} tokens");
            return Err(wrong(what));
        }
        let prefix = &model.search.prefix[..];
        let (language, flag, prefix) = match side {
            Side::Target => (&model.target_language, "--target-lang", prefix),
            Side::Source => (&model.source_language, "--source-lang", &[][..]),
        };
        let bos_id = model.search.bos_id;
        let language = match language {
            Some(name) => match inner.token_to_id(name) {
                // In some models, the start token is the language token, which is not repeated.
                id @ Some(_) if side == Side::Target && id == bos_id && is_language(name) => {
                    Language::None
                }
                Some(id) if is_language(name) => Language::Token(id),
                _ => return Err(UsageError::new(flag, name, no_language(&inner))),
            },
            None if side == Side::Target => Language::None,
            None => Language::OfTemplate,
        };
        let template = Template {
            language,
            prefix: prefix.to_vec(),
            suffix: Vec::new(),
        };
        let encoded = contain(|| inner.encode("a", true));
        let encoded = encoded.map_err(|error| wrong(format!("cannot encode a text ({error})")))?;
        let template = template.with_suffix(&encoded, &inner);
        check_special_tokens(&inner, &template, [model.pad_id, end_id]).map_err(wrong)?;
        Ok(Self {
            vocab_size: size,
            pad_id: model.pad_id,
            bos_id: bos_id
                .ok_or_else(|| UsageError::new("bos_id", "null", "must begin targets"))?,
            eos_id: end_id,
            unk_id: UNK.iter().find_map(|name| inner.token_to_id(name)),
            is_words: inner.library().is_some_and(is_of_words),
            template: Some(template),
            sha256: parsed.sha256.clone(),
            json: parsed.json.clone(),
            inner,
        })
    }
}

/// The parsed `tokenizer.json` of a pretrained model, from which [`Tokenizer::pretrained`] makes a
/// tokeniser of sources and one of targets.
pub struct PretrainedTokenizer {
    path: PathBuf,
    inner: Arc<Engine>,
    /// Largest id of a token that a text may have; `None` if there are no such tokens.
    largest_id: Option<u32>,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    json: Arc<[u8]>,
}

impl PretrainedTokenizer {
    /// Reads the tokeniser of a folder: `tokenizer.json`, or the files that a published model has
    /// instead.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is not what its name says, could need too much memory, or lets the
    /// tokenizers library panic, or if there is no tokeniser.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let path = folder.join(JOINT);
        let unfit = |path: &Path, what| UsageError::new("tokeniser", path.display(), what);
        let json = tokenizer_of(folder);
        let (json, class) = json.map_err(|FolderError { path, what }| unfit(&path, what))?;
        if let Some(class) = class {
            let what = format!(
                "the tokenizer_class {class} is not known, and changes nothing here; \
                with it, the library transformers may read tokenizer.json in another way"
            );
            notes::warn(&format!("{}: {what}", folder.display()));
        }
        let inner = Engine::parse(&json).map_err(|what| unfit(&path, what))?;
        // The largest id is found here, before the caller reads the weights of the model, so that
        // this copy of the vocabulary and the weights are not in memory together.
        let tokens = inner.tokens().into_iter().map(|(_, id)| id);
        let largest_id = tokens.filter(|&id| !inner.is_special(id)).max();
        Ok(Self {
            largest_id,
            inner: inner.into(),
            sha256: sha256(&json),
            json: json.into(),
            path,
        })
    }

    /// Returns the tokeniser of one side, and the largest id of a token that its texts may have.
    fn of(&self, side: Side) -> (Arc<Engine>, Option<u32>) {
        let Engine::Pieces(pieces) = &*self.inner else {
            return (self.inner.clone(), self.largest_id);
        };
        let pieces = pieces.of(side);
        let largest_id = pieces.largest_id();
        (Arc::new(Engine::Pieces(pieces)), largest_id)
    }

    /// Returns the token of a language by its name in the tokeniser, such as `eng_Latn`, or for
    /// M2M100 by its code, such as `en`; `None` if there is none.
    pub fn language(&self, name: &str) -> Option<(String, u32)> {
        let names = [name.to_owned(), format!("__{name}__")];
        let id = |name: String| self.inner.token_to_id(&name).map(|id| (name, id));
        let mut languages = names.into_iter().filter(|name| is_language(name));
        languages.find_map(id)
    }

    /// Returns whether a token is that of a language.
    pub fn is_language(&self, id: u32) -> bool {
        let token = self.inner.id_to_token(id);
        token.is_some_and(|token| is_language(&token))
    }
}

/// Checks that a tokeniser pads and ends texts as the model does.
fn check_special_tokens(
    inner: &Engine,
    template: &Template,
    [pad_id, end_id]: [u32; 2],
) -> Result<(), String> {
    for (what, id) in [("pad_token_id", pad_id), ("eos_token_id", end_id)] {
        if inner.id_to_token(id).is_none() {
            return Err(format!("has no token {id}, the {what} of the model"));
        }
    }
    let padding = PAD.iter().find_map(|name| inner.token_to_id(name));
    if let Some(id) = padding.filter(|&id| id != pad_id) {
        return Err(format!(
            "is of another model: it pads with {id}, but pad_token_id of config.json is {pad_id}"
        ));
    }
    match &template.suffix[..] {
        suffix if suffix.is_empty() || suffix.contains(&end_id) => Ok(()),
        suffix => Err(format!(
            "is of another model: it ends a text with {suffix:?}, but eos_token_id of generation_config.json or config.json is {end_id}"
        )),
    }
}
