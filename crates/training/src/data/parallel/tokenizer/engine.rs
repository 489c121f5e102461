//! What segments texts: the tokenizers library, or SentencePiece.

use pieces::published::PieceTokenizer;
use tokenizers::{Result, Tokenizer};

use super::content;

/// Token ids of a text, and whether the template has added each of these tokens.
pub(super) type Encoded = (Vec<u32>, Vec<bool>);

/// Segments texts into tokens, and joins tokens to texts.
pub(super) enum Engine {
    Library(Box<Tokenizer>),
    Pieces(PieceTokenizer),
}

impl Engine {
    /// Parses the content of a `tokenizer.json`, or of a file that [`pieces::published::tokenizer_of`]
    /// returned.
    ///
    /// # Errors
    ///
    /// The reason why the content cannot be used.
    pub fn parse(json: &[u8]) -> std::result::Result<Self, String> {
        match PieceTokenizer::parse(json) {
            Some(pieces) => pieces.map(Self::Pieces),
            None => Ok(content::parse(json)?.0.into()),
        }
    }

    /// Returns the tokeniser of the tokenizers library; `None` for SentencePiece.
    pub fn library(&self) -> Option<&Tokenizer> {
        match self {
            Self::Library(library) => Some(library),
            Self::Pieces(_) => None,
        }
    }

    /// Encodes a text, with the special tokens of the template if `with_template`.
    pub fn encode(&self, text: &str, with_template: bool) -> Result<Encoded> {
        match self {
            Self::Library(library) => {
                let encoding = library.encode_fast(text, with_template)?;
                let mask = encoding.get_special_tokens_mask().iter();
                let is_added = mask.map(|&is_added| is_added == 1).collect();
                Ok((encoding.get_ids().to_vec(), is_added))
            }
            Self::Pieces(pieces) => Ok(pieces.encode(text, with_template)),
        }
    }

    /// Returns the text of tokens, without special tokens if `skips_special`.
    pub fn decode(&self, ids: &[u32], skips_special: bool) -> Result<String> {
        match self {
            Self::Library(library) => library.decode(ids, skips_special),
            Self::Pieces(pieces) => Ok(pieces.decode(ids, skips_special)),
        }
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        match self {
            Self::Library(library) => library.id_to_token(id),
            Self::Pieces(pieces) => pieces.token(id).map(String::from),
        }
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Self::Library(library) => library.token_to_id(token),
            Self::Pieces(pieces) => pieces.id(token),
        }
    }

    /// Returns all tokens and their ids, in any order.
    pub fn tokens(&self) -> Vec<(String, u32)> {
        match self {
            Self::Library(library) => library.get_vocab(true).into_iter().collect(),
            Self::Pieces(pieces) => pieces.tokens().collect(),
        }
    }

    /// Returns whether a text never has this token: it is a special token of the template, or one
    /// that no text is encoded to.
    pub fn is_special(&self, id: u32) -> bool {
        match self {
            Self::Library(library) => {
                let added = library.get_added_tokens_decoder();
                added.get(&id).is_some_and(|token| token.special)
            }
            Self::Pieces(pieces) => pieces.is_special(id),
        }
    }
}

impl From<Tokenizer> for Engine {
    fn from(library: Tokenizer) -> Self {
        Self::Library(Box::new(library))
    }
}
