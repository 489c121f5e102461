//! The messages of a model file (`sentencepiece_model.proto`), without what only training needs.

use crate::wire::{Fields, Value};
use crate::{Algorithm, Error, Kind};

/// The message `ModelProto`.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub pieces: Vec<Entry>,
    pub trainer: TrainerSpec,
    pub normalizer: NormalizerSpec,
    pub denormalizer: NormalizerSpec,
}

/// The message `SentencePiece`.
#[derive(Debug)]
pub(crate) struct Entry {
    pub text: String,
    pub score: f32,
    pub kind: Kind,
}

/// The message `TrainerSpec`.
#[derive(Debug)]
pub(crate) struct TrainerSpec {
    pub algorithm: Algorithm,
    pub treat_whitespace_as_suffix: bool,
    pub byte_fallback: bool,
    pub unk_surface: String,
    pub unk_piece: String,
    pub bos_piece: String,
    pub eos_piece: String,
    pub pad_piece: String,
}

/// The message `NormalizerSpec`.
#[derive(Debug)]
pub(crate) struct NormalizerSpec {
    pub charsmap: Vec<u8>,
    pub add_dummy_prefix: bool,
    pub remove_extra_whitespaces: bool,
    pub escape_whitespaces: bool,
}

impl Default for TrainerSpec {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Unigram,
            treat_whitespace_as_suffix: false,
            byte_fallback: false,
            unk_surface: " \u{2047} ".into(),
            unk_piece: "<unk>".into(),
            bos_piece: "<s>".into(),
            eos_piece: "</s>".into(),
            pad_piece: "<pad>".into(),
        }
    }
}

impl Default for NormalizerSpec {
    fn default() -> Self {
        Self {
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        }
    }
}

impl Model {
    /// Reads a file. As everywhere in protocol buffers, unknown fields are skipped, and fields
    /// that are repeated against their definition replace earlier values.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Wire("it is empty"));
        }
        // Protocol buffers have the same limit, and ids are numbers of 32 bits.
        if bytes.len() > i32::MAX as usize {
            return Err(Error::Wire("it is larger than 2 GiB"));
        }
        let mut model = Self::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, Value::Bytes(message)) => {
                    let entry = Entry::read(message, model.pieces.len() as u32)?;
                    model.pieces.push(entry);
                }
                (2, Value::Bytes(message)) => model.trainer.read(message)?,
                (3, Value::Bytes(message)) => model.normalizer.read(message)?,
                (5, Value::Bytes(message)) => model.denormalizer.read(message)?,
                _ => {}
            }
        }
        Ok(model)
    }
}

impl Entry {
    fn read(message: &[u8], id: u32) -> Result<Self, Error> {
        let (mut text, mut score, mut kind) = (&[][..], 0.0, Kind::Normal);
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(bytes)) => text = bytes,
                (2, Value::Fixed32(bytes)) => score = f32::from_le_bytes(bytes),
                // A number without meaning is an unknown field, and changes nothing.
                (3, Value::Varint(number)) => kind = Kind::from_number(number).unwrap_or(kind),
                _ => {}
            }
        }
        if text.is_empty() {
            let reason = "is empty".into();
            return Err(Error::Piece { id, reason });
        }
        let text = String::from_utf8(text.into()).map_err(|_| Error::Piece {
            id,
            reason: "is not UTF-8".into(),
        })?;
        Ok(Self { text, score, kind })
    }
}

impl TrainerSpec {
    fn read(&mut self, message: &[u8]) -> Result<(), Error> {
        for field in Fields::new(message) {
            match field? {
                (3, Value::Varint(1)) => self.algorithm = Algorithm::Unigram,
                (3, Value::Varint(2)) => self.algorithm = Algorithm::Bpe,
                (3, Value::Varint(3)) => return Err(Error::Algorithm("word")),
                (3, Value::Varint(4)) => return Err(Error::Algorithm("char")),
                (24, Value::Varint(flag)) => self.treat_whitespace_as_suffix = flag != 0,
                (35, Value::Varint(flag)) => self.byte_fallback = flag != 0,
                (44, Value::Bytes(text)) => self.unk_surface = lossy(text),
                (45, Value::Bytes(text)) if !text.is_empty() => self.unk_piece = lossy(text),
                (46, Value::Bytes(text)) if !text.is_empty() => self.bos_piece = lossy(text),
                (47, Value::Bytes(text)) if !text.is_empty() => self.eos_piece = lossy(text),
                (48, Value::Bytes(text)) if !text.is_empty() => self.pad_piece = lossy(text),
                _ => {}
            }
        }
        Ok(())
    }
}

impl NormalizerSpec {
    fn read(&mut self, message: &[u8]) -> Result<(), Error> {
        for field in Fields::new(message) {
            match field? {
                (2, Value::Bytes(table)) => self.charsmap = table.into(),
                (3, Value::Varint(flag)) => self.add_dummy_prefix = flag != 0,
                (4, Value::Varint(flag)) => self.remove_extra_whitespaces = flag != 0,
                (5, Value::Varint(flag)) => self.escape_whitespaces = flag != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
