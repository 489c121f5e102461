//! Unigram models: the segmentation whose pieces have the highest sum of scores
//! (Kudo 2018, <https://arxiv.org/abs/1804.10959>).

use crate::normalizer::first_char;
use crate::trie::Trie;
use crate::vocabulary::Vocabulary;
use crate::{Kind, Segment};

/// An unknown character is worth less than the worst piece, by this much.
const UNKNOWN_PENALTY: f32 = 10.0;
/// Sums of larger magnitude are shifted to 0, as f32 has too few digits for them.
const MAX_SUM: f32 = 100_000.0;

/// The best segmentation of a beginning of the text, by its last segment.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    score: f32,
    /// Where the last segment starts; `None` if no segment ends here.
    start: Option<usize>,
    id: Option<u32>,
}

impl Path {
    /// Takes the better path. Of equal paths, the earlier one stays: it has the longer last
    /// segment.
    fn offer(&mut self, score: f32, start: usize, id: Option<u32>) {
        if self.start.is_none() || score > self.score {
            *self = Self {
                score,
                start: Some(start),
                id,
            };
        }
    }
}

/// Returns the score of a character that is no piece.
pub(crate) fn unknown_score(vocabulary: &Vocabulary) -> f32 {
    let normal = vocabulary
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Normal);
    normal.map(|entry| entry.score).fold(f32::MAX, f32::min) - UNKNOWN_PENALTY
}

/// Segments normalised text.
pub(crate) fn segment(vocabulary: &Vocabulary, unknown_score: f32, text: &str) -> Vec<Segment> {
    // One path for each position, in bytes.
    let mut paths = vec![Path::default(); text.len() + 1];
    // The last position at which a segment ends.
    let mut last = 0;
    let mut start = 0;
    while start < text.len() {
        let mut sum = paths[start].score;
        if sum.abs() > MAX_SUM {
            for path in &mut paths[start..=last] {
                path.score -= sum;
            }
            sum = 0.0;
        }
        let character = first_char(&text[start..]);
        let mut has_character = false;
        let mut node = Trie::ROOT;
        for (end, &byte) in (start + 1..).zip(&text.as_bytes()[start..]) {
            match vocabulary.texts.child(node, byte) {
                Some(child) => node = child,
                None => break,
            }
            let Some(id) = vocabulary.texts.value(node) else {
                continue;
            };
            let entry = vocabulary.entry(id);
            let length = end - start;
            let score = match entry.kind {
                Kind::Unused => continue,
                Kind::UserDefined => (0.1 * (length - 1) as f64) as f32,
                _ => entry.score,
            };
            last = last.max(end);
            paths[end].offer(score + sum, start, Some(id));
            has_character |= length == character;
        }
        if !has_character {
            let end = start + character;
            last = last.max(end);
            paths[end].offer(unknown_score + sum, start, None);
        }
        start += character;
    }
    let mut segments = Vec::with_capacity(text.len() / 4 + 1);
    let mut end = text.len();
    while let Some(start) = paths[end].start {
        let id = paths[end].id;
        segments.push(Segment { start, end, id });
        end = start;
    }
    segments.reverse();
    segments
}
