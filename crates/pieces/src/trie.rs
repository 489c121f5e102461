//! A set of texts, each with a number, that finds all prefixes of a text in one walk.

use std::collections::VecDeque;

/// A trie of bytes. Nodes are numbered in breadth-first order, so that the children of a node have
/// consecutive numbers.
#[derive(Debug)]
pub(crate) struct Trie {
    /// The first child of each node, and at the end the number of nodes.
    first_child: Vec<u32>,
    /// The byte that leads to each node. Those of siblings are sorted.
    bytes: Vec<u8>,
    /// The value of the text that ends at each node, or `NONE`.
    values: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Trie {
    /// The node of the empty text.
    pub const ROOT: u32 = 0;

    /// Creates a trie of texts and their values, which must be below `u32::MAX`. The error has the
    /// values of two equal texts.
    pub fn new(mut texts: Vec<(&[u8], u32)>) -> Result<Self, (u32, u32)> {
        texts.sort_unstable();
        if let Some(pair) = texts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err((pair[0].1, pair[1].1));
        }
        let mut trie = Self {
            first_child: Vec::new(),
            bytes: vec![0],
            values: Vec::new(),
        };
        // Each waiting node has the texts that begin with its own text, and the length of that.
        let mut waiting = VecDeque::from([(&texts[..], 0)]);
        while let Some((mut texts, depth)) = waiting.pop_front() {
            let mut value = NONE;
            if let Some(&(text, own)) = texts.first()
                && text.len() == depth
            {
                value = own;
                texts = &texts[1..];
            }
            trie.values.push(value);
            trie.first_child.push(trie.bytes.len() as u32);
            for texts in texts.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]) {
                trie.bytes.push(texts[0].0[depth]);
                waiting.push_back((texts, depth + 1));
            }
        }
        trie.first_child.push(trie.bytes.len() as u32);
        Ok(trie)
    }

    /// Returns the node of the text of `node`, followed by `byte`.
    #[inline]
    pub fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let first = self.first_child[node as usize];
        let bytes = &self.bytes[first as usize..self.first_child[node as usize + 1] as usize];
        let index = if bytes.len() > 8 {
            bytes.binary_search(&byte).ok()
        } else {
            bytes.iter().position(|&other| other == byte)
        };
        Some(first + index? as u32)
    }

    /// Returns the node of the text of `node`, followed by `text`.
    pub fn descendant(&self, node: u32, text: &[u8]) -> Option<u32> {
        text.iter()
            .try_fold(node, |node, &byte| self.child(node, byte))
    }

    /// Returns the value of the text that ends at `node`.
    #[inline]
    pub fn value(&self, node: u32) -> Option<u32> {
        Some(self.values[node as usize]).filter(|&value| value != NONE)
    }

    /// Returns the value of `text`.
    pub fn get(&self, text: &str) -> Option<u32> {
        self.value(self.descendant(Self::ROOT, text.as_bytes())?)
    }

    /// Returns the length in bytes of the longest text with which `text` begins.
    pub fn longest_prefix(&self, text: &str) -> Option<usize> {
        let mut node = Self::ROOT;
        let mut longest = None;
        for (index, &byte) in text.as_bytes().iter().enumerate() {
            match self.child(node, byte) {
                Some(child) => node = child,
                None => break,
            }
            if self.value(node).is_some() {
                longest = Some(index + 1);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trie(texts: &[&str]) -> Result<Trie, (u32, u32)> {
        Trie::new(texts.iter().map(|text| text.as_bytes()).zip(0..).collect())
    }

    #[test]
    fn texts_have_their_values() {
        let many: Vec<String> = (0..3000u32).map(|n| (n * n).to_string()).collect();
        let texts: Vec<&str> = many.iter().map(String::as_str).collect();
        let trie = trie(&texts).unwrap();
        for (text, value) in texts.iter().zip(0..) {
            assert_eq!(trie.get(text), Some(value), "{text}");
        }
        assert_eq!(trie.get("2"), None);
        assert_eq!(trie.get(""), None);
        assert_eq!(trie.get("81x"), None);
    }

    #[test]
    fn the_longest_prefix_is_found() {
        let trie = trie(&["a", "abc", "b"]).unwrap();
        let lengths = ["abd", "abcd", "", "xa", "b"].map(|text| trie.longest_prefix(text));
        assert_eq!(lengths, [Some(1), Some(3), None, None, Some(1)]);
    }

    #[test]
    fn equal_texts_are_rejected() {
        assert_eq!(trie(&["b", "a", "b"]).unwrap_err(), (0, 2));
        assert!(trie(&[]).unwrap().get("a").is_none());
    }
}
