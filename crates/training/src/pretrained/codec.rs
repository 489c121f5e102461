//! The tokeniser of a folder, as it is, with its template of special tokens.

use std::path::Path;

use tokenizers::Tokenizer;
use transformer::TransformerConfig;

use super::generation::Generation;
use crate::contain::contain;
use crate::data::{Codec, EncodeError, Sides, Vocabularies};
use crate::error::UsageError;
use crate::files::read_regular;
use crate::notes;

/// Maximum size of a `tokenizer.json`, in MiB.
const LARGEST: u64 = 512;

/// Languages of a model that translates between several; `None` for a model of one language pair.
#[derive(Clone, Debug, Default)]
pub struct Languages {
    /// Language of sources, as the tokeniser writes it, such as `eng_Latn`.
    pub source: Option<String>,
    /// Language of targets.
    pub target: Option<String>,
}

/// Translates between texts and the token ids of a pretrained model.
pub(super) struct PretrainedCodec {
    tokenizer: Tokenizer,
    vocabularies: Vocabularies,
    /// Token of the sources' language, which replaces that of the template.
    source_language: Option<u32>,
    /// Token of the targets' language, with which outputs begin.
    pub target_language: Option<u32>,
}

impl PretrainedCodec {
    pub fn read(
        folder: &Path,
        model: &TransformerConfig,
        generation: &Generation,
        languages: &Languages,
    ) -> Result<Self, UsageError> {
        let path = folder.join("tokenizer.json");
        let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
        if !path.exists() {
            let what = "does not exist: for most models, transformers writes it with \
                        AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)";
            return Err(wrong(what.into()));
        }
        let bytes = read_regular(&path, LARGEST);
        let bytes = bytes.map_err(|error| wrong(format!("cannot be read ({error})")))?;
        let read = contain(|| Tokenizer::from_bytes(&bytes));
        let read = read.map(|result| result.map_err(|error| error.to_string()));
        let mut tokenizer = read
            .unwrap_or_else(Err)
            .map_err(|error| wrong(format!("is not a tokenizer.json of Hugging Face ({error})")))?;
        tokenizer.with_padding(None);
        let without = tokenizer.with_truncation(None);
        without.map_err(|error| wrong(error.to_string()))?;
        let size = model.target_vocab_size;
        if let Some(most) = tokenizer.get_vocab(true).into_values().max()
            && most as usize >= size
        {
            let what = format!("has the token id {most}, but the model has {size} tokens");
            return Err(wrong(what));
        }
        let language = |flag: &str, name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => match tokenizer.token_to_id(name) {
                Some(id) if is_language(name) => Ok(Some(id)),
                _ => Err(UsageError::new(flag, name, no_language(&tokenizer))),
            },
        };
        let source_language = language("--source-lang", &languages.source)?;
        let target_language = language("--target-lang", &languages.target)?;
        let ids = [
            ("decoder_start_token_id", Some(generation.start_token)),
            ("eos_token_id", generation.end_token),
            ("forced_bos_token_id", generation.forced_first),
        ];
        for (name, id) in ids {
            if let Some(id) = id.filter(|&id| id as usize >= size) {
                let what = format!("has {name} {id}, but the model has {size} tokens");
                return Err(UsageError::new("folder", folder.display(), what));
            }
        }
        Ok(Self {
            vocabularies: Vocabularies {
                source_size: model.source_vocab_size,
                target_size: size,
                pad_ids: Sides {
                    source: model.pad_id,
                    target: model.pad_id,
                },
                bos_id: generation.start_token,
                eos_id: generation.end_token,
            },
            source_language,
            target_language,
            tokenizer,
        })
    }

    fn encode(&self, text: &str, with_special: bool) -> Vec<u32> {
        let encoding = contain(|| self.tokenizer.encode_fast(text, with_special));
        match encoding.map(|result| result.map_err(|error| error.to_string())) {
            Ok(Ok(encoding)) => encoding.get_ids().to_vec(),
            Ok(Err(error)) | Err(error) => {
                let what = "the tokeniser cannot encode a text, which becomes empty";
                notes::warn(&format!("{what} ({error})"));
                Vec::new()
            }
        }
    }

    fn decode(&self, ids: &[u32]) -> String {
        let text = contain(|| self.tokenizer.decode(ids, true));
        let text = text.ok().and_then(Result::ok).unwrap_or_default();
        text.replace(['\n', '\r'], " ").trim().into()
    }

    fn name(&self, id: u32) -> String {
        self.tokenizer
            .id_to_token(id)
            .unwrap_or_else(|| id.to_string())
    }
}

/// Returns whether a token names a language: `eng_Latn`, `en_XX`, or `__en__`.
fn is_language(token: &str) -> bool {
    let is_code = |code: &str| {
        (2..=3).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    if let Some(code) = token.strip_prefix("__") {
        return code.strip_suffix("__").is_some_and(is_code);
    }
    token.split_once('_').is_some_and(|(code, script)| {
        let letters = script.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_script = script.starts_with(|c: char| c.is_ascii_uppercase());
        is_code(code) && letters && is_script && (2..=4).contains(&script.len())
    })
}

/// Returns the error about a language that the tokeniser does not have.
fn no_language(tokenizer: &Tokenizer) -> String {
    let mut known: Vec<String> = tokenizer.get_vocab(true).into_keys().collect();
    known.retain(|token| is_language(token));
    known.sort();
    match known.len() {
        0 => "is not possible: the tokeniser has no languages".into(),
        1..=20 => format!(
            "is not a language of the tokeniser, which are {}",
            known.join(", ")
        ),
        n => format!(
            "is not one of the {n} languages of the tokeniser, such as {}",
            known[..5].join(", ")
        ),
    }
}

impl Codec for PretrainedCodec {
    fn vocabularies(&self) -> Vocabularies {
        self.vocabularies
    }

    fn encode_source(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let mut ids = self.encode(text, true);
        if let Some(language) = self.source_language {
            let is_code = |id: &u32| is_language(&self.name(*id));
            // The template has the token of the language that it was saved with, before or after
            // the text.
            match ids.iter().position(is_code) {
                Some(place) => ids[place] = language,
                None => ids.insert(0, language),
            }
        }
        Ok(ids)
    }

    fn encode_target(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        Ok(self.encode(text, false))
    }

    fn decode_source(&self, ids: &[u32]) -> String {
        self.decode(ids)
    }

    fn decode_target(&self, ids: &[u32]) -> String {
        self.decode(ids)
    }

    fn source_token(&self, id: u32) -> String {
        self.name(id)
    }

    fn target_token(&self, id: u32) -> String {
        self.name(id)
    }

    fn target_id(&self, name: &str) -> Result<u32, EncodeError> {
        self.tokenizer.token_to_id(name).ok_or_else(|| EncodeError {
            word: name.into(),
            symbols: "the tokens of tokenizer.json".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_languages_are_recognised() {
        for token in [
            "eng_Latn", "zho_Hans", "en_XX", "gl_ES", "__de__", "__ceb__",
        ] {
            assert!(is_language(token), "{token}");
        }
        for token in [
            "en",
            "<s>",
            "a_b",
            "__",
            "eng_latn",
            "snake_case",
            "x_Y",
            "____",
        ] {
            assert!(!is_language(token), "{token}");
        }
    }
}
