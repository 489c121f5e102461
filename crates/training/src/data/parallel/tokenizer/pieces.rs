//! Unique names of tokens, by which their ids can be found again.

use std::collections::{HashMap, HashSet};

/// The names of all tokens of a vocabulary, each different from the others. Names have no blanks,
/// unless those in the vocabulary have some.
#[derive(Clone, Debug)]
pub struct Pieces {
    names: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Pieces {
    /// Chooses the names of tokens with the ids 0, 1 and so on. `tokens` has two names for each
    /// token: a readable name, and the name in the vocabulary. A token gets the readable name if
    /// this name is not empty, has no blanks, is not the name of another token in the vocabulary,
    /// and was not given to an earlier token. Otherwise, the token gets the name in the vocabulary.
    pub fn new(tokens: impl Iterator<Item = [String; 2]>) -> Self {
        let tokens: Vec<[String; 2]> = tokens.collect();
        let own: HashMap<&str, usize> = (tokens.iter().enumerate())
            .map(|(id, [_, own])| (own.as_str(), id))
            .collect();
        let mut taken = HashSet::new();
        let mut names = Vec::with_capacity(tokens.len());
        for (id, [readable, own_name]) in tokens.iter().enumerate() {
            let is_free = own.get(readable.as_str()).is_none_or(|&other| other == id);
            let is_word = !readable.is_empty() && !readable.contains(is_blank);
            let name = if is_free && is_word && taken.insert(readable) {
                readable
            } else {
                own_name
            };
            names.push(name.clone());
        }
        let ids = names.iter().cloned().zip(0..).collect();
        Self { names, ids }
    }

    /// Returns the name of a token; `None` for an unknown id.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id as usize).map(String::as_str)
    }

    /// Returns the id of the token whose [name](Self::name) is `name`; `None` if there is no such
    /// token.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_a_name_of_its_own() {
        let tokens = [
            ["▁der", "Ġder"],
            ["Ã", "Ã"],
            // The token of the whole character `Ã`. Its first name is already the name of another
            // token, which is a single byte. It must therefore get its second name.
            ["Ã", "ÃĢ"],
            ["\n", "Ċ"],
            ["▁der", "▁der'"],
        ];
        let pieces = Pieces::new(tokens.iter().map(|names| names.map(String::from)));
        let names: Vec<&str> = (0..5).map(|id| pieces.name(id).unwrap()).collect();
        assert_eq!(names, ["▁der", "Ã", "ÃĢ", "Ċ", "▁der'"]);
        for (id, name) in (0..).zip(names) {
            assert_eq!(pieces.id(name), Some(id));
        }
        assert_eq!((pieces.name(5), pieces.id("Ġder")), (None, None));
        assert_eq!((pieces.len(), pieces.is_empty()), (5, false));
    }
}
