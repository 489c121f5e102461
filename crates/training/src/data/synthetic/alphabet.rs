//! The tokens of a synthetic task: the symbols of its sequences, and special tokens.

use std::collections::HashMap;
use std::ops::Range;

use rand::RngExt;
use transformer::{Vocabulary, VocabularyError};

use crate::data::{Codec, DataRng, EncodeError, Sides, Vocabularies};

/// Tokens of a synthetic task, with their ids and names.
///
/// As a [`Codec`], an alphabet reads and writes symbols separated by white space, for sources and
/// targets alike.
///
/// ```
/// use training::data::{Alphabet, Codec};
///
/// let alphabet = Alphabet::new(["a", "b", "c"])?;
/// assert_eq!(alphabet.symbols(), 4..7); // after <pad>, <bos>, <eos> and <unk>
/// assert_eq!(alphabet.id("b"), Some(5));
/// assert_eq!(alphabet.encode_source("c a").unwrap(), [6, 4]);
/// assert_eq!(alphabet.decode_target(&[6, 4]), "c a");
/// # Ok::<(), transformer::VocabularyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Alphabet {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    symbols: Range<u32>,
    eos_id: Option<u32>,
}

impl Alphabet {
    /// Creates an alphabet of symbols with these names. The symbols get the ids after the special
    /// tokens of a [`Vocabulary`], in the order of `names`.
    ///
    /// # Errors
    ///
    /// If a name occurs twice, is empty or has white space in it.
    pub fn new(
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, VocabularyError> {
        let vocabulary = Vocabulary::new(names)?;
        let tokens = (0..).map_while(|id| vocabulary.token(id).map(String::from));
        let (first, eos_id) = (Vocabulary::UNK_ID + 1, Some(Vocabulary::EOS_ID));
        Ok(Self::from_tokens(tokens.collect(), first, eos_id))
    }

    /// Creates an alphabet from all its tokens, which must differ. Tokens with ids from
    /// `first_symbol` on are symbols. Padding and begin symbol have the ids of a [`Vocabulary`]; the
    /// begin symbol may be one of the symbols.
    pub(super) fn from_tokens(tokens: Vec<String>, first_symbol: u32, eos_id: Option<u32>) -> Self {
        Self {
            ids: tokens.iter().cloned().zip(0..).collect(),
            symbols: first_symbol..tokens.len() as u32,
            tokens,
            eos_id,
        }
    }

    /// Returns the id of the begin symbol, the first token of every target.
    pub fn bos_id(&self) -> u32 {
        Vocabulary::BOS_ID
    }

    /// Returns the id of the end symbol, the last token of every target; `None` if targets have
    /// none.
    pub fn eos_id(&self) -> Option<u32> {
        self.eos_id
    }

    /// Returns the ids of all symbols, in the order of their names in [`new`](Self::new).
    pub fn symbols(&self) -> Range<u32> {
        self.symbols.clone()
    }

    /// Returns the ids of `length` random symbols.
    pub(super) fn draw(&self, length: usize, rng: &mut DataRng) -> Vec<u32> {
        let symbol = |_| rng.random_range(self.symbols());
        (0..length).map(symbol).collect()
    }

    /// Returns the id of the token with this name, special tokens included; `None` if there is no
    /// such token.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// Returns the id of the token with this name. It is an error if there is none, or if
    /// `is_valid` rejects the id.
    fn known(&self, name: &str, is_valid: impl Fn(&u32) -> bool) -> Result<u32, EncodeError> {
        let id = self.id(name).filter(is_valid);
        id.ok_or_else(|| EncodeError {
            word: name.into(),
            symbols: self.description(),
        })
    }

    /// Returns a description of the symbols, such as `1 to 32` or `0 to 9, +`, for error messages.
    fn description(&self) -> String {
        let names = &self.tokens[self.symbols.start as usize..];
        let number = |name: &String| name.parse::<u64>().ok();
        let next = |name: &String| number(name)?.checked_add(1);
        let follows = |a: &String, b: &String| next(a).is_some() && next(a) == number(b);
        let runs = names.chunk_by(follows).map(|run| match run {
            [first, .., last] => format!("{first} to {last}"),
            one => one.concat(),
        });
        runs.collect::<Vec<_>>().join(", ")
    }
}

impl Codec for Alphabet {
    fn vocabularies(&self) -> Vocabularies {
        Vocabularies {
            source_size: self.tokens.len(),
            target_size: self.tokens.len(),
            pad_ids: Sides::both(Vocabulary::PAD_ID),
            bos_id: self.bos_id(),
            eos_id: self.eos_id,
        }
    }

    fn encode_source(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let words = text.split_whitespace();
        let is_symbol = |id: &u32| self.symbols.contains(id);
        words.map(|word| self.known(word, is_symbol)).collect()
    }

    fn encode_target(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        self.encode_source(text)
    }

    /// Returns the names of the tokens, separated by blanks. An id without a token becomes `?`.
    fn decode_source(&self, ids: &[u32]) -> String {
        let names = ids.iter().map(|&id| self.source_token(id));
        names.collect::<Vec<_>>().join(" ")
    }

    fn decode_target(&self, ids: &[u32]) -> String {
        self.decode_source(ids)
    }

    fn source_token(&self, id: u32) -> String {
        let name = self.tokens.get(id as usize);
        name.map_or("?", String::as_str).into()
    }

    fn target_token(&self, id: u32) -> String {
        self.source_token(id)
    }

    fn target_id(&self, name: &str) -> Result<u32, EncodeError> {
        self.known(name, |_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_ids_and_names() {
        let alphabet = Alphabet::new(["x", "y"]).unwrap();
        let vocabularies = Vocabularies {
            source_size: 6,
            target_size: 6,
            pad_ids: Sides::both(0),
            bos_id: 1,
            eos_id: Some(2),
        };
        assert_eq!(alphabet.vocabularies(), vocabularies);
        assert_eq!((alphabet.bos_id(), alphabet.eos_id()), (1, Some(2)));
        assert_eq!(alphabet.symbols(), 4..6);
        assert_eq!(alphabet.id("y"), Some(5));
        assert_eq!(alphabet.id("<bos>"), Some(1));
        assert_eq!(alphabet.id("z"), None);
        assert_eq!(alphabet.decode_source(&[5, 1, 4, 9]), "y <bos> x ?");
        assert!(Alphabet::new(["x", "x"]).is_err());
    }

    #[test]
    fn consecutive_numbers_are_described_by_the_first_and_the_last() {
        let describe = |names: &[&str]| Alphabet::new(names.iter().copied()).unwrap().description();
        assert_eq!(describe(&["1"]), "1");
        assert_eq!(describe(&["1", "2", "3"]), "1 to 3");
        assert_eq!(describe(&["8", "9", "+", "a", "b"]), "8 to 9, +, a, b");
        assert_eq!(
            describe(&["18446744073709551615", "0"]),
            "18446744073709551615, 0"
        );
    }
}
