//! SentencePiece models in Rust alone.
//!
//! [`SentencePiece`] reads a model file as it is published (`source.spm`, `spiece.model`,
//! `sentencepiece.bpe.model`), and segments text into the same pieces as
//! [SentencePiece](https://github.com/google/sentencepiece) 0.2.3, to the last id. Models are of
//! the algorithms unigram and BPE. There is no training and no sampling.
//!
//! # How text becomes ids
//!
//! ```text
//! "Two dogs"       normalizer.rs: characters are replaced by the table of charsmap.rs,
//!                                 and blanks become ▁
//! "▁Two▁dogs"      unigram.rs or bpe.rs: segments, looked up in the trie of vocabulary.rs
//! "▁Two" "▁dog" "s"
//! 512 99 4         lib.rs: unknown segments are joined, or become bytes
//! ```
//!
//! # Hostile files
//!
//! A file that is cut, contradicts itself or is of another kind is an [`Error`]. Reading a file takes
//! memory in proportion to its size. Segmenting text takes time in proportion to the length of the
//! text and, at worst, of the longest piece, which has at most 7,999 bytes.
//!
//! Three limits are not those of SentencePiece: pieces must be UTF-8, and a rule of the normalizer
//! replaces at most 1,024 bytes by at most 1,024 bytes.

#![forbid(unsafe_code)]

mod bpe;
mod charsmap;
mod decode;
mod error;
mod model;
mod normalizer;
pub mod published;
mod trie;
mod unigram;
mod vocabulary;
mod wire;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::path::Path;

pub use error::Error;

use model::{Entry, Model, TrainerSpec};
use normalizer::Normalizer;
use vocabulary::{Unknown, Vocabulary};

/// The algorithm by which a model segments text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The segmentation with the highest sum of scores.
    Unigram,
    /// Byte-pair encoding.
    Bpe,
}

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece that stands for its own text.
    Normal,
    /// The piece of all text that no other piece stands for.
    Unknown,
    /// A piece that stands for no text, such as `</s>`. It is decoded to nothing.
    Control,
    /// A piece that is never split, and that normalization leaves as it is.
    UserDefined,
    /// A piece that has an id, but is not used in segmentations.
    Unused,
    /// A byte of UTF-8, such as `<0x0A>`.
    Byte,
}

impl Kind {
    fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// A piece of a segmented text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Id of the piece.
    pub id: u32,
    /// Text of the piece, with `▁` for blanks. If the piece is unknown, it is the normalized text
    /// that the piece stands for.
    pub text: String,
}

/// A part of a normalized text, from `start` to `end` in bytes. `id` is `None` if it is unknown.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    id: Option<u32>,
}

/// A SentencePiece model.
#[derive(Debug)]
pub struct SentencePiece {
    vocabulary: Vocabulary,
    trainer: TrainerSpec,
    normalizer: Normalizer,
    denormalizer: Option<Normalizer>,
    /// Score of an unknown character in a unigram model.
    unknown_score: f32,
}

impl SentencePiece {
    /// Reads a model file.
    ///
    /// # Errors
    ///
    /// Returns an error with the path if the file cannot be read or is not a valid model.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|reason| Error::Read {
            path: path.into(),
            reason,
        })?;
        Self::from_bytes(&bytes).map_err(|reason| Error::File {
            path: path.into(),
            reason: Box::new(reason),
        })
    }

    /// Reads the content of a model file.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a valid model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Model {
            pieces,
            trainer,
            normalizer,
            denormalizer,
        } = Model::read(bytes)?;
        let vocabulary = Vocabulary::new(pieces, trainer.algorithm, trainer.byte_fallback)?;
        let denormalizer = if denormalizer.charsmap.is_empty() {
            None
        } else {
            Some(Normalizer::new(denormalizer, false)?)
        };
        Ok(Self {
            unknown_score: unigram::unknown_score(&vocabulary),
            normalizer: Normalizer::new(normalizer, trainer.treat_whitespace_as_suffix)?,
            vocabulary,
            trainer,
            denormalizer,
        })
    }

    /// Segments `text` into pieces. No piece is added at the start or the end.
    ///
    /// Consecutive unknown characters are one piece, or one piece for each of their bytes if the
    /// model has [`byte_fallback`](Self::byte_fallback).
    pub fn encode(&self, text: &str) -> Vec<Piece> {
        let normalized = self.normalize(text);
        let mut pieces = Vec::new();
        self.each_piece(&normalized, |id, start, end| {
            let text = match self.kind(id) {
                Some(Kind::Byte) => self.vocabulary.entry(id).text.clone(),
                _ => normalized[start..end].into(),
            };
            pieces.push(Piece { id, text });
        });
        pieces
    }

    /// Segments `text` into pieces, and returns their ids.
    pub fn ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.each_piece(&self.normalize(text), |id, _, _| ids.push(id));
        ids
    }

    /// Calls `piece` with the id of each piece of a normalized text, and with its segment.
    fn each_piece(&self, normalized: &str, mut piece: impl FnMut(u32, usize, usize)) {
        let mut segments = match self.trainer.algorithm {
            Algorithm::Unigram => {
                unigram::segment(&self.vocabulary, self.unknown_score, normalized)
            }
            Algorithm::Bpe => bpe::segment(&self.vocabulary, normalized),
        };
        segments.dedup_by(|next, previous| {
            let unknown = next.id.is_none() && previous.id.is_none();
            if unknown {
                previous.end = next.end;
            }
            unknown
        });
        for Segment { start, end, id } in segments {
            match (id, &self.vocabulary.unknown) {
                (Some(id), _) | (None, &Unknown::Piece(id)) => piece(id, start, end),
                (None, Unknown::Bytes(ids)) => {
                    for &byte in &normalized.as_bytes()[start..end] {
                        piece(ids[usize::from(byte)], start, end);
                    }
                }
            }
        }
    }

    /// Joins the pieces of `ids` to a text.
    ///
    /// Controls are left out, and an unknown piece becomes ` ⁇ `, or what the model has for it.
    /// Ids that are not in the vocabulary are unknown.
    pub fn decode(&self, ids: &[u32]) -> String {
        let unknown = (None, &self.trainer.unk_surface[..]);
        let pieces = ids.iter().map(|&id| match self.piece(id) {
            Some(piece) => (Some(id), piece),
            None => unknown,
        });
        decode::decode(self, pieces)
    }

    /// Joins pieces to a text, as [`decode`](Self::decode) does. Texts that are not in the
    /// vocabulary stay as they are.
    pub fn decode_pieces(&self, pieces: &[&str]) -> String {
        let vocabulary = &self.vocabulary;
        let pieces = pieces
            .iter()
            .map(|&piece| (vocabulary.id(piece).or(vocabulary.unk_id), piece));
        decode::decode(self, pieces)
    }

    /// Normalizes `text` as [`encode`](Self::encode) does before it segments the text.
    pub fn normalize(&self, text: &str) -> String {
        let protected = Some(&self.vocabulary.user_defined);
        self.normalizer.normalize(text, protected)
    }

    /// Returns the number of pieces.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a model has at least one piece"
    )]
    pub fn len(&self) -> usize {
        self.vocabulary.entries.len()
    }

    fn entry(&self, id: u32) -> Option<&Entry> {
        self.vocabulary.entries.get(id as usize)
    }

    /// Returns the text of a piece.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.entry(id).map(|entry| &entry.text[..])
    }

    /// Returns the id of a piece; `None` if the vocabulary does not have it.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.vocabulary.id(piece)
    }

    /// Returns the score of a piece. In a unigram model, it is the logarithm of a probability.
    pub fn score(&self, id: u32) -> Option<f32> {
        self.entry(id).map(|entry| entry.score)
    }

    /// Returns the kind of a piece.
    pub fn kind(&self, id: u32) -> Option<Kind> {
        self.entry(id).map(|entry| entry.kind)
    }

    /// Returns the id of the unknown piece.
    pub fn unk_id(&self) -> Option<u32> {
        self.special(&self.trainer.unk_piece, Kind::Unknown)
    }

    /// Returns the id of the control that begins a text.
    pub fn bos_id(&self) -> Option<u32> {
        self.special(&self.trainer.bos_piece, Kind::Control)
    }

    /// Returns the id of the control that ends a text.
    pub fn eos_id(&self) -> Option<u32> {
        self.special(&self.trainer.eos_piece, Kind::Control)
    }

    /// Returns the id of the control that fills up short texts of a batch.
    pub fn pad_id(&self) -> Option<u32> {
        self.special(&self.trainer.pad_piece, Kind::Control)
    }

    fn special(&self, piece: &str, kind: Kind) -> Option<u32> {
        let id = self.id(piece).or(self.vocabulary.unk_id)?;
        Some(id).filter(|&id| self.kind(id) == Some(kind))
    }

    /// Returns the algorithm of the model.
    pub fn algorithm(&self) -> Algorithm {
        self.trainer.algorithm
    }

    /// Returns the precompiled table of the normalizer, as it is in the file. Without a table, it
    /// is empty.
    pub fn charsmap(&self) -> &[u8] {
        &self.normalizer.spec.charsmap
    }

    /// Returns whether normalization adds a blank before the text, or after it if the model has
    /// [`treat_whitespace_as_suffix`](Self::treat_whitespace_as_suffix).
    pub fn add_dummy_prefix(&self) -> bool {
        self.normalizer.spec.add_dummy_prefix
    }

    /// Returns whether normalization removes blanks at both ends and all but one of consecutive
    /// blanks.
    pub fn remove_extra_whitespaces(&self) -> bool {
        self.normalizer.spec.remove_extra_whitespaces
    }

    /// Returns whether normalization replaces blanks by `▁`.
    pub fn escape_whitespaces(&self) -> bool {
        self.normalizer.spec.escape_whitespaces
    }

    /// Returns whether unknown text becomes one piece for each of its bytes.
    pub fn byte_fallback(&self) -> bool {
        self.trainer.byte_fallback
    }

    /// Returns whether blanks belong to the word before them.
    pub fn treat_whitespace_as_suffix(&self) -> bool {
        self.trainer.treat_whitespace_as_suffix
    }
}
