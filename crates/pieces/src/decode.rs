//! From pieces back to text.

use crate::normalizer::SPACE;
use crate::vocabulary::byte_of;
use crate::{Kind, SentencePiece};

/// Joins pieces, each with its id (`None` if it is unknown and the model has no piece for that).
pub(crate) fn decode<'a>(
    model: &SentencePiece,
    pieces: impl Iterator<Item = (Option<u32>, &'a str)>,
) -> String {
    let spec = &model.normalizer.spec;
    let strips_prefix = spec.add_dummy_prefix || spec.remove_extra_whitespaces;
    let mut text = String::new();
    let mut bytes = Vec::new();
    let mut at_start = true;
    for (id, piece) in pieces {
        let entry = id.map(|id| model.vocabulary.entry(id));
        let kind = entry.map_or(Kind::Unknown, |entry| entry.kind);
        if let (Kind::Byte, Some(byte)) = (kind, byte_of(piece)) {
            bytes.push(byte);
            continue;
        }
        push_bytes(&mut text, &mut bytes);
        at_start &= text.is_empty();
        if kind == Kind::Control {
            continue;
        }
        let stripped = piece
            .strip_prefix(SPACE)
            .filter(|_| at_start && strips_prefix);
        if kind != Kind::Unknown {
            text.push_str(&stripped.unwrap_or(piece).replace(SPACE, " "));
        } else if entry.is_some_and(|entry| entry.text == piece) {
            text.push_str(&model.trainer.unk_surface);
        } else {
            text.push_str(piece);
        }
        // With extra blanks removed, all blanks at the start are; otherwise only the first is.
        at_start &= stripped.is_none() || spec.remove_extra_whitespaces;
    }
    push_bytes(&mut text, &mut bytes);
    match &model.denormalizer {
        Some(denormalizer) => denormalizer.normalize(&text, None),
        None => text,
    }
}

/// Appends bytes and clears them. Each byte that is not part of a character becomes U+FFFD.
fn push_bytes(text: &mut String, bytes: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    bytes.clear();
}
