//! Byte-pair encoding: adjacent symbols are merged, the pair with the highest score first
//! (Sennrich et al. 2016, <https://arxiv.org/abs/1508.07909>).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::normalizer::first_char;
use crate::trie::Trie;
use crate::vocabulary::Vocabulary;
use crate::{Kind, Segment};

/// Deeper splits of unused pieces are not followed, as in SentencePiece.
const MAX_DEPTH: usize = 100;

/// A part of the text, in a doubly linked list. A symbol that was merged into its left neighbour
/// is empty.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
    /// Where the trie of texts has this symbol; `None` if no piece begins with it.
    node: Option<u32>,
    /// A user-defined symbol is not merged.
    frozen: bool,
}

impl Symbol {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// A symbol that may be merged with the next one. The highest score is first, then the leftmost
/// symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// The score as an integer of the same order.
    score: i32,
    left: Reverse<usize>,
    /// Length of both symbols together. If it has changed, the pair is outdated.
    length: usize,
    /// Where the trie of texts has both symbols together.
    node: u32,
}

/// Returns an integer that orders scores as [`f32::total_cmp`] does.
fn order(score: f32) -> i32 {
    let bits = score.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

/// Segments normalised text.
pub(crate) fn segment(vocabulary: &Vocabulary, text: &str) -> Vec<Segment> {
    let mut search = Search {
        vocabulary,
        text,
        symbols: symbols(vocabulary, text),
        pairs: BinaryHeap::new(),
        splits: HashMap::new(),
    };
    for left in 0..search.symbols.len() {
        search.offer(left);
    }
    search.merge();
    let mut segments = Vec::with_capacity(text.len() / 4 + 1);
    for symbol in &search.symbols {
        if symbol.len() > 0 {
            search.split(symbol.start, symbol.end, 0, &mut segments);
        }
    }
    segments
}

/// Returns the user-defined symbols and the other characters of a text.
fn symbols(vocabulary: &Vocabulary, text: &str) -> Vec<Symbol> {
    let mut symbols = Vec::with_capacity(text.len());
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let frozen = vocabulary.user_defined.longest_prefix(rest);
        let end = start + frozen.unwrap_or_else(|| first_char(rest));
        let index = symbols.len();
        symbols.push(Symbol {
            start,
            end,
            previous: index.checked_sub(1),
            next: Some(index + 1).filter(|_| end < text.len()),
            node: vocabulary
                .texts
                .descendant(Trie::ROOT, &text.as_bytes()[start..end]),
            frozen: frozen.is_some(),
        });
        start = end;
    }
    symbols
}

struct Search<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a str,
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
    /// For each unused piece that two symbols made up, the length of the left one.
    splits: HashMap<u32, usize>,
}

impl Search<'_> {
    /// Adds the pair of a symbol and the next one if it is a piece.
    fn offer(&mut self, left: usize) {
        let first = self.symbols[left];
        let Some(right) = first.next else {
            return;
        };
        let second = self.symbols[right];
        if first.frozen || second.frozen {
            return;
        }
        let texts = &self.vocabulary.texts;
        let second_text = &self.text.as_bytes()[second.start..second.end];
        let node = first
            .node
            .and_then(|node| texts.descendant(node, second_text));
        let Some((node, id)) = node.and_then(|node| Some((node, texts.value(node)?))) else {
            return;
        };
        let entry = self.vocabulary.entry(id);
        if entry.kind == Kind::Unused {
            self.splits.insert(id, first.len());
        }
        self.pairs.push(Pair {
            score: order(entry.score),
            left: Reverse(left),
            length: first.len() + second.len(),
            node,
        });
    }

    /// Merges pairs until there are none.
    fn merge(&mut self) {
        while let Some(pair) = self.pairs.pop() {
            let left = pair.left.0;
            let first = self.symbols[left];
            let Some(right) = first.next else {
                continue;
            };
            let second = self.symbols[right];
            if first.len() == 0 || first.len() + second.len() != pair.length {
                continue;
            }
            self.symbols[left] = Symbol {
                end: second.end,
                next: second.next,
                node: Some(pair.node),
                ..first
            };
            self.symbols[right].end = second.start;
            if let Some(next) = second.next {
                self.symbols[next].previous = Some(left);
            }
            if let Some(previous) = first.previous {
                self.offer(previous);
            }
            self.offer(left);
        }
    }

    /// Adds a symbol to the segments. Unused pieces are split again into what they were made of.
    fn split(&self, start: usize, end: usize, depth: usize, segments: &mut Vec<Segment>) {
        let mut id = self.vocabulary.texts.get(&self.text[start..end]);
        let unused = id.filter(|&id| self.vocabulary.entry(id).kind == Kind::Unused);
        if let Some(unused) = unused
            && depth <= MAX_DEPTH
        {
            if let Some(length) = self.splits.get(&unused) {
                let middle = start + length;
                self.split(start, middle, depth + 1, segments);
                self.split(middle, end, depth + 1, segments);
                return;
            }
            // It is a single character, which nothing was merged to.
            id = None;
        }
        segments.push(Segment { start, end, id });
    }
}
