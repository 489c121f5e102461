//! The tokens of a task: symbols that a person writes, and special ones around them.

use std::collections::HashMap;
use std::ops::Range;

use transformer::{Vocabulary, VocabularyError};

/// Tokens, their ids and their names.
///
/// ```
/// use train::task::Alphabet;
///
/// let alphabet = Alphabet::new(["a", "b", "c"])?;
/// assert_eq!(alphabet.symbols(), 4..7); // after <pad>, <bos>, <eos> and <unk>
/// assert_eq!(alphabet.id("b"), Some(5));
/// assert_eq!(alphabet.show(&[6, 4]), "c a");
/// # Ok::<(), transformer::VocabularyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Alphabet {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
    symbols: Range<u32>,
    pad_id: u32,
    bos_id: u32,
    eos_id: Option<u32>,
}

impl Alphabet {
    /// Symbols of these names, in this order, after the special tokens of a [`Vocabulary`].
    ///
    /// # Errors
    ///
    /// If a name stands twice, is empty or has white space in it.
    pub fn new(
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, VocabularyError> {
        let vocabulary = Vocabulary::new(names)?;
        let ids = 0..vocabulary.len() as u32;
        let tokens = ids.map(|id| vocabulary.token(id).expect("ids are places").into());
        Ok(Self::of(
            tokens.collect(),
            Vocabulary::UNK_ID + 1,
            Vocabulary::PAD_ID,
            Vocabulary::BOS_ID,
            Some(Vocabulary::EOS_ID),
        ))
    }

    /// Different tokens, of which those from `first_symbol` on are symbols, even if one of them
    /// begins every target, too.
    pub(super) fn of(
        tokens: Vec<String>,
        first_symbol: u32,
        pad_id: u32,
        bos_id: u32,
        eos_id: Option<u32>,
    ) -> Self {
        Self {
            ids: tokens.iter().cloned().zip(0..).collect(),
            symbols: first_symbol..tokens.len() as u32,
            tokens,
            pad_id,
            bos_id,
            eos_id,
        }
    }

    /// Number of tokens, the special ones included.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    /// Fills short sequences up.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    /// The first token of every target.
    pub fn bos_id(&self) -> u32 {
        self.bos_id
    }

    /// The last token of every target, if they have one.
    pub fn eos_id(&self) -> Option<u32> {
        self.eos_id
    }

    /// The ids of all symbols, in the order of their names in [`new`](Self::new).
    pub fn symbols(&self) -> Range<u32> {
        self.symbols.clone()
    }

    /// The id of a token, special ones too.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The names of some tokens, with a blank between them.
    pub fn show(&self, ids: &[u32]) -> String {
        let name = |&id: &u32| self.tokens.get(id as usize).map_or("?", String::as_str);
        ids.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// The symbols, in words: `1 to 32`, or `0 to 9, +`.
    pub fn in_words(&self) -> String {
        let names = &self.tokens[self.symbols.start as usize..];
        let number = |name: &String| name.parse::<u64>().ok();
        let follows = |a: &String, b: &String| {
            number(a)
                .and_then(|a| a.checked_add(1))
                .is_some_and(|next| number(b) == Some(next))
        };
        let runs = names.chunk_by(follows).map(|run| match run {
            [first, .., last] => format!("{first} to {last}"),
            one => one.concat(),
        });
        runs.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_ids_and_names() {
        let alphabet = Alphabet::new(["x", "y"]).unwrap();
        assert_eq!(alphabet.vocab_size(), 6);
        assert_eq!((alphabet.pad_id(), alphabet.bos_id()), (0, 1));
        assert_eq!(alphabet.eos_id(), Some(2));
        assert_eq!(alphabet.symbols(), 4..6);
        assert_eq!(alphabet.id("y"), Some(5));
        assert_eq!(alphabet.id("<bos>"), Some(1));
        assert_eq!(alphabet.id("z"), None);
        assert_eq!(alphabet.show(&[5, 1, 4, 9]), "y <bos> x ?");
        assert!(Alphabet::new(["x", "x"]).is_err());
    }

    #[test]
    fn consecutive_numbers_are_told_by_the_first_and_the_last() {
        let words = |names: &[&str]| Alphabet::new(names.iter().copied()).unwrap().in_words();
        assert_eq!(words(&["1"]), "1");
        assert_eq!(words(&["1", "2", "3"]), "1 to 3");
        assert_eq!(words(&["8", "9", "+", "a", "b"]), "8 to 9, +, a, b");
        assert_eq!(
            words(&["18446744073709551615", "0"]),
            "18446744073709551615, 0"
        );
    }
}
