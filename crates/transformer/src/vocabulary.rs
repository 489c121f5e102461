//! A vocabulary of whole words.
//!
//! The paper (section 5.1) uses vocabularies of subwords instead.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A fixed list of tokens that maps words to ids and ids to words.
///
/// The id of a token is its index in the list. The first four tokens are always [`PAD`](Self::PAD),
/// [`BOS`](Self::BOS), [`EOS`](Self::EOS) and [`UNK`](Self::UNK).
///
/// ```
/// use transformer::Vocabulary;
///
/// let vocabulary = Vocabulary::new(["I", "love", "AI"])?;
/// let ids = vocabulary.encode("I love Rust");
/// assert_eq!(ids, [4, 5, Vocabulary::UNK_ID]);
/// assert_eq!(vocabulary.decode(&ids)?, "I love <unk>");
/// # Ok::<(), transformer::VocabularyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
}

/// An error in a vocabulary or its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// A token occurs twice.
    #[error("token {token:?} occurs twice, as ids {first} and {second}: tokens must be unique")]
    Duplicate {
        /// Token that occurs twice.
        token: String,
        /// Id of the token's first occurrence.
        first: u32,
        /// Id of the token's second occurrence.
        second: u32,
    },
    /// A token is empty or contains white space, so it cannot be a word of a sentence.
    #[error("token {token:?} (id {id}) is empty or contains white space, which separates words")]
    NotAWord {
        /// Token that is empty or contains white space.
        token: String,
        /// Id of the token.
        id: u32,
    },
    /// A token id is outside the vocabulary.
    #[error("token id {id} is outside the vocabulary, ids are 0..{size}")]
    UnknownId {
        /// Token id that is outside the vocabulary.
        id: u32,
        /// Size of the vocabulary, in tokens.
        size: usize,
    },
    /// A file does not begin with the special tokens.
    #[error("{}: the first four tokens must be <pad>, <bos>, <eos> and <unk>", path.display())]
    NoSpecialTokens {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file is not a JSON list of strings.
    #[error("{}: not a JSON list of tokens: {source}", path.display())]
    Json {
        /// Path of the file.
        path: PathBuf,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// The tokens of a file are not a valid vocabulary.
    #[error("{}: {source}", path.display())]
    InFile {
        /// Path of the file.
        path: PathBuf,
        /// The error in the tokens of the file.
        source: Box<VocabularyError>,
    },
}

impl Vocabulary {
    /// Token that pads short sequences.
    pub const PAD: &'static str = "<pad>";
    /// Token that precedes every target.
    pub const BOS: &'static str = "<bos>";
    /// Token that ends every target.
    pub const EOS: &'static str = "<eos>";
    /// Token that replaces words outside the vocabulary.
    pub const UNK: &'static str = "<unk>";
    /// Id of [`PAD`](Self::PAD).
    pub const PAD_ID: u32 = 0;
    /// Id of [`BOS`](Self::BOS).
    pub const BOS_ID: u32 = 1;
    /// Id of [`EOS`](Self::EOS).
    pub const EOS_ID: u32 = 2;
    /// Id of [`UNK`](Self::UNK).
    pub const UNK_ID: u32 = 3;

    /// The special tokens, by their ids.
    pub const SPECIAL: [&'static str; 4] = [Self::PAD, Self::BOS, Self::EOS, Self::UNK];

    /// Creates a vocabulary of the four special tokens and `tokens`, whose ids begin at 4.
    ///
    /// # Errors
    ///
    /// A token occurs twice, is empty or contains white space.
    pub fn new(
        tokens: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, VocabularyError> {
        let special = Self::SPECIAL.map(String::from);
        Self::from_all(
            special
                .into_iter()
                .chain(tokens.into_iter().map(Into::into)),
        )
    }

    fn from_all(tokens: impl Iterator<Item = String>) -> Result<Self, VocabularyError> {
        let tokens: Vec<String> = tokens.collect();
        let mut ids = HashMap::with_capacity(tokens.len());
        for (id, token) in (0..).zip(&tokens) {
            if token.is_empty() || token.contains(char::is_whitespace) {
                return Err(VocabularyError::NotAWord {
                    token: token.clone(),
                    id,
                });
            }
            if let Some(first) = ids.insert(token.clone(), id) {
                return Err(VocabularyError::Duplicate {
                    token: token.clone(),
                    first,
                    second: id,
                });
            }
        }
        Ok(Self { tokens, ids })
    }

    /// Returns the number of tokens, including the four special tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns `false`, since a vocabulary always has the special tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the id of a token; [`UNK_ID`](Self::UNK_ID) for a token outside the vocabulary.
    pub fn id(&self, token: &str) -> u32 {
        self.ids.get(token).copied().unwrap_or(Self::UNK_ID)
    }

    /// Returns the token with this id; `None` if the id is outside the vocabulary.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// Returns the id of each word of a sentence; words are separated by white space.
    ///
    /// Neither [`BOS`](Self::BOS) nor [`EOS`](Self::EOS) is added, but a word that is one of the special
    /// tokens has its id.
    pub fn encode(&self, sentence: &str) -> Vec<u32> {
        sentence
            .split_whitespace()
            .map(|word| self.id(word))
            .collect()
    }

    /// Returns the words of `ids`, separated by spaces.
    ///
    /// Padding, begin and end symbols are skipped.
    ///
    /// # Errors
    ///
    /// An id is not in the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String, VocabularyError> {
        let mut words = Vec::with_capacity(ids.len());
        for &id in ids {
            let token = self.token(id).ok_or(VocabularyError::UnknownId {
                id,
                size: self.len(),
            })?;
            if ![Self::PAD_ID, Self::BOS_ID, Self::EOS_ID].contains(&id) {
                words.push(token);
            }
        }
        Ok(words.join(" "))
    }

    /// Writes the tokens to a file, as a JSON list.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), VocabularyError> {
        let path = path.as_ref();
        let json = serde_json::to_vec(&self.tokens).expect("strings are valid JSON");
        std::fs::write(path, json).map_err(|source| VocabularyError::Io {
            path: path.into(),
            source,
        })
    }

    /// Reads a vocabulary that [`save`](Self::save) wrote.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a JSON list of strings, does not begin with the special
    /// tokens, or has tokens that [`new`](Self::new) rejects.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, VocabularyError> {
        let path = path.as_ref();
        let json = std::fs::read(path).map_err(|source| VocabularyError::Io {
            path: path.into(),
            source,
        })?;
        let tokens: Vec<String> =
            serde_json::from_slice(&json).map_err(|source| VocabularyError::Json {
                path: path.into(),
                source,
            })?;
        if tokens.len() < 4 || tokens[..4] != Self::SPECIAL {
            return Err(VocabularyError::NoSpecialTokens { path: path.into() });
        }
        Self::from_all(tokens.into_iter()).map_err(|source| VocabularyError::InFile {
            path: path.into(),
            source: Box::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_have_fixed_ids() {
        let vocabulary = Vocabulary::new(["a"]).unwrap();
        for (id, token) in (0..).zip(["<pad>", "<bos>", "<eos>", "<unk>", "a"]) {
            assert_eq!(vocabulary.id(token), id);
            assert_eq!(vocabulary.token(id), Some(token));
        }
        assert_eq!(vocabulary.len(), 5);
        assert_eq!(vocabulary.token(5), None);
    }

    #[test]
    fn sentences_are_encoded_and_decoded() {
        let vocabulary = Vocabulary::new(["the", "cat", "sat"]).unwrap();
        let ids = vocabulary.encode("  the cat\tsat ");
        assert_eq!(ids, [4, 5, 6]);
        assert_eq!(
            vocabulary.decode(&[1, 4, 5, 6, 2, 0, 0]).unwrap(),
            "the cat sat"
        );
        let error = vocabulary.decode(&[4, 7]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "token id 7 is outside the vocabulary, ids are 0..7"
        );
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        let error = |tokens: &[&str]| {
            Vocabulary::new(tokens.iter().copied())
                .unwrap_err()
                .to_string()
        };
        assert!(error(&["a", "b", "a"]).contains("\"a\" occurs twice, as ids 4 and 6"));
        assert!(error(&["<bos>"]).contains("\"<bos>\" occurs twice, as ids 1 and 4"));
        assert!(error(&[""]).contains("is empty"));
        assert!(error(&["a b"]).contains("white space"));
    }

    #[test]
    fn files_are_saved_and_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocabulary.json");
        let vocabulary = Vocabulary::new(["été", "\"", "猫"]).unwrap();
        vocabulary.save(&path).unwrap();
        assert_eq!(Vocabulary::load(&path).unwrap(), vocabulary);

        for (content, message) in [
            ("[", "not a JSON list"),
            ("{\"a\": 1}", "not a JSON list"),
            ("[\"a\"]", "first four tokens"),
            (
                r#"["<pad>","<bos>","<eos>","<unk>","a","a"]"#,
                "occurs twice",
            ),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = Vocabulary::load(&path).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(error.contains("vocabulary.json"), "{error}");
        }
        let missing = Vocabulary::load(folder.path().join("none.json")).unwrap_err();
        assert!(matches!(missing, VocabularyError::Io { .. }));
    }
}
