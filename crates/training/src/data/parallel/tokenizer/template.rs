//! Special tokens around the texts of a pretrained model.

use pieces::published::is_language;
use serde::Serialize;
use tokenizers::Encoding;

use super::engine::Engine;

/// The special tokens that a pretrained model's tokeniser adds to a text: those of the template in
/// `tokenizer.json`, in which the language token may be replaced or removed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Template {
    /// What happens to the language token of the template.
    pub language: Language,
    /// Token ids with which every text begins, whether the template has them or not.
    pub prefix: Vec<u32>,
    /// Token ids that end sources. [`Template::ids`] omits them.
    pub suffix: Vec<u32>,
}

/// What happens to the language token of a template, such as `eng_Latn`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Language {
    /// The language token is kept.
    OfTemplate,
    /// The token with this id replaces the language token. If the template has no language token,
    /// the token with this id begins the text.
    Token(u32),
    /// The language token is removed.
    None,
}

impl Template {
    /// Returns the ids of an encoding, with the prefix and the tokens of the template, but without
    /// the suffix.
    pub fn ids(&self, encoding: &Encoding, tokenizer: &Engine) -> Vec<u32> {
        let mut ids = self.whole(encoding, tokenizer);
        ids.truncate(ids.len().saturating_sub(self.suffix.len()));
        if !ids.starts_with(&self.prefix) {
            ids.splice(0..0, self.prefix.iter().copied());
        }
        ids
    }

    /// Sets the suffix: the special tokens that the template adds after a text. `encoding` encodes
    /// an arbitrary text with at least one token.
    pub fn with_suffix(mut self, encoding: &Encoding, tokenizer: &Engine) -> Self {
        let added = encoding.get_special_tokens_mask().iter().rev();
        let added = added.take_while(|&&is_added| is_added == 1).count();
        let first = encoding.len() - added;
        let removed = match self.language {
            Language::None => language_of(encoding, tokenizer).is_some_and(|place| place >= first),
            _ => false,
        };
        let ids = self.whole(encoding, tokenizer);
        self.suffix = ids[ids.len() - (added - usize::from(removed))..].to_vec();
        self
    }

    /// Returns the ids of an encoding with all tokens of the template.
    fn whole(&self, encoding: &Encoding, tokenizer: &Engine) -> Vec<u32> {
        let mut ids = encoding.get_ids().to_vec();
        let place = language_of(encoding, tokenizer);
        match (self.language, place) {
            (Language::Token(id), Some(place)) => ids[place] = id,
            (Language::Token(id), None) => ids.insert(0, id),
            (Language::None, Some(place)) => drop(ids.remove(place)),
            (Language::OfTemplate, _) | (Language::None, None) => {}
        }
        ids
    }
}

/// Returns the position of the language token that the template has added to an encoding; `None` if
/// there is none.
fn language_of(encoding: &Encoding, tokenizer: &Engine) -> Option<usize> {
    let added = encoding.get_special_tokens_mask();
    let mut ids = encoding.get_ids().iter().zip(added);
    let name = |id: u32| tokenizer.id_to_token(id).unwrap_or_default();
    ids.position(|(&id, &is_added)| is_added == 1 && is_language(&name(id)))
}

/// Returns the error about a language that the tokeniser does not have.
pub(super) fn no_language(tokenizer: &Engine) -> String {
    let tokens = tokenizer.tokens().into_iter().map(|(token, _)| token);
    let mut known: Vec<String> = tokens.filter(|token| is_language(token)).collect();
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
