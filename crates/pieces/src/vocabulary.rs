//! The pieces of a model, and their ids.

use crate::Error;
use crate::model::Entry;
use crate::trie::Trie;
use crate::{Algorithm, Kind};

/// SentencePiece rejects longer pieces, too.
const MAX_PIECE: usize = 7999;

/// All pieces of a model. Ids are indices of `entries`.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    pub entries: Vec<Entry>,
    /// Pieces that stand for their own text: normal, user-defined and unused ones.
    pub texts: Trie,
    /// Pieces that no text is segmented into: unknown, controls and bytes.
    reserved: Trie,
    pub user_defined: Trie,
    pub unk_id: Option<u32>,
    pub unknown: Unknown,
}

/// What unknown text becomes.
#[derive(Debug)]
pub(crate) enum Unknown {
    /// One piece for all of it, with this id.
    Piece(u32),
    /// One piece for each byte, with these ids.
    Bytes(Vec<u32>),
}

impl Vocabulary {
    /// Checks the pieces in the way that SentencePiece does.
    pub fn new(
        mut entries: Vec<Entry>,
        algorithm: Algorithm,
        byte_fallback: bool,
    ) -> Result<Self, Error> {
        if entries.is_empty() {
            return Err(Error::NoPieces);
        }
        let mut unk_id = None;
        let mut bytes = [None; 256];
        for (id, entry) in (0..).zip(&mut entries) {
            // Some converters write this piece next to <0x00>.
            if entry.text == "\0" && byte_fallback {
                entry.kind = Kind::Unused;
            }
            check(entry, algorithm, byte_fallback).map_err(|reason| Error::Piece { id, reason })?;
            if entry.kind == Kind::Unknown
                && let Some(first) = unk_id.replace(id)
            {
                let reason = format!("is of the kind unknown, as is piece {first}");
                return Err(Error::Piece { id, reason });
            }
            if entry.kind == Kind::Byte
                && let Some(byte) = byte_of(&entry.text)
            {
                bytes[usize::from(byte)] = Some(id);
            }
        }
        let unknown = if byte_fallback {
            let ids = bytes.iter().zip(0..=255);
            let ids = ids.map(|(id, byte)| id.ok_or_else(|| Error::NoByte(byte_piece(byte))));
            Unknown::Bytes(ids.collect::<Result<_, _>>()?)
        } else {
            Unknown::Piece(unk_id.ok_or(Error::NoUnknown)?)
        };
        let texts = trie(&entries, |kind| !reserved(kind))?;
        // In a unigram model, a control and a normal piece may be equal.
        if algorithm == Algorithm::Bpe {
            for (id, entry) in (0..).zip(&entries) {
                if reserved(entry.kind)
                    && let Some(other) = texts.get(&entry.text)
                {
                    return Err(equal(&entries, other, id));
                }
            }
        }
        Ok(Self {
            texts,
            reserved: trie(&entries, reserved)?,
            user_defined: trie(&entries, |kind| kind == Kind::UserDefined)?,
            entries,
            unk_id,
            unknown,
        })
    }

    /// Returns the id of a piece. If a control and a normal piece are equal, it is the control's.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.reserved.get(piece).or_else(|| self.texts.get(piece))
    }

    pub fn entry(&self, id: u32) -> &Entry {
        &self.entries[id as usize]
    }
}

fn reserved(kind: Kind) -> bool {
    matches!(kind, Kind::Unknown | Kind::Control | Kind::Byte)
}

fn check(entry: &Entry, algorithm: Algorithm, byte_fallback: bool) -> Result<(), String> {
    if entry.text.len() > MAX_PIECE {
        return Err(format!("is longer than {MAX_PIECE} bytes"));
    }
    if entry.text.contains('\0') && !absent(entry) {
        return Err("has a NUL character".into());
    }
    if algorithm == Algorithm::Unigram && !entry.score.is_finite() {
        return Err(format!(
            "has the score {}, which is not finite",
            entry.score
        ));
    }
    if entry.kind == Kind::Byte {
        if !byte_fallback {
            return Err("is of the kind byte, but byte_fallback is false".into());
        }
        if byte_of(&entry.text).is_none() {
            return Err(format!(
                "is {:?}, but must be a byte such as <0x0A>",
                entry.text
            ));
        }
    }
    Ok(())
}

/// Whether a piece has an id, but cannot be looked up.
fn absent(entry: &Entry) -> bool {
    entry.text == "\0" && entry.kind == Kind::Unused
}

/// Returns the trie of the pieces of some kinds.
fn trie(entries: &[Entry], kinds: impl Fn(Kind) -> bool) -> Result<Trie, Error> {
    let texts = entries.iter().zip(0..);
    let texts = texts.filter(|(entry, _)| kinds(entry.kind) && !absent(entry));
    let texts = texts.map(|(entry, id)| (entry.text.as_bytes(), id));
    Trie::new(texts.collect()).map_err(|(first, second)| equal(entries, first, second))
}

fn equal(entries: &[Entry], first: u32, second: u32) -> Error {
    Error::Piece {
        id: second,
        reason: format!("is {:?}, as is piece {first}", entries[first as usize].text),
    }
}

/// Returns the piece of a byte, such as `<0x0A>`.
pub(crate) fn byte_piece(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

/// Returns the byte of a piece such as `<0x0A>`.
pub(crate) fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    Some(byte).filter(|&byte| piece == byte_piece(byte))
}
