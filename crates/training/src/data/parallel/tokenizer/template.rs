//! Special tokens around the texts of a pretrained model.

use pieces::published::is_language;
use serde::Serialize;

use super::engine::{Encoded, Engine};

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
    /// Returns the ids of an encoded text, with the prefix and the tokens of the template, but
    /// without the suffix.
    pub fn ids(&self, encoded: &Encoded, tokenizer: &Engine) -> Vec<u32> {
        let mut ids = self.whole(encoded, tokenizer);
        ids.truncate(ids.len().saturating_sub(self.suffix.len()));
        if !ids.starts_with(&self.prefix) {
            ids.splice(0..0, self.prefix.iter().copied());
        }
        ids
    }

    /// Sets the suffix: the special tokens that the template adds after a text. `encoded` is
    /// an arbitrary text with at least one token.
    pub fn with_suffix(mut self, encoded: &Encoded, tokenizer: &Engine) -> Self {
        let (_, is_added) = encoded;
        let last = is_added.iter().rev();
        let added = last.take_while(|&&is_added| is_added).count();
        let first = is_added.len() - added;
        let removed = match self.language {
            Language::None => language_of(encoded, tokenizer).is_some_and(|place| place >= first),
            _ => false,
        };
        let ids = self.whole(encoded, tokenizer);
        self.suffix = ids[ids.len() - (added - usize::from(removed))..].to_vec();
        self
    }

    /// Returns the ids of an encoded text with all tokens of the template.
    fn whole(&self, encoded: &Encoded, tokenizer: &Engine) -> Vec<u32> {
        let mut ids = encoded.0.clone();
        let place = language_of(encoded, tokenizer);
        match (self.language, place) {
            (Language::Token(id), Some(place)) => ids[place] = id,
            (Language::Token(id), None) => ids.insert(0, id),
            (Language::None, Some(place)) => drop(ids.remove(place)),
            (Language::OfTemplate, _) | (Language::None, None) => {}
        }
        ids
    }
}

/// Returns the position of the language token that the template has added to a text; `None` if there
/// is none.
fn language_of((ids, is_added): &Encoded, tokenizer: &Engine) -> Option<usize> {
    let mut ids = ids.iter().zip(is_added);
    let name = |id: u32| tokenizer.id_to_token(id).unwrap_or_default();
    ids.position(|(&id, &is_added)| is_added && is_language(&name(id)))
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
