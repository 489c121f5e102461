//! The trait by which a search runs a model.

/// A model that predicts the next token of several rows at once.
///
/// A row is a target being decoded. The model remembers the rows of its latest step, and the next
/// step creates new rows from them. A step may continue a row several times, or not at all.
pub trait Autoregressive {
    /// Returns the size `V` of the vocabulary, in tokens.
    fn vocab_size(&self) -> usize;

    /// Creates new rows and returns the logits of the token that follows each of them.
    ///
    /// New row `i` is row `parents[i]` of the previous step, followed by `tokens[i]`. The result
    /// has `V` logits for each new row, one row after the other. The logits need not be normalised.
    ///
    /// Before the first step there is one empty row per source. New rows are ordered by source, so
    /// that the rows of one source are adjacent.
    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32>;

    /// Creates new rows of several tokens each, and returns the logits of the token that follows
    /// the last of them.
    ///
    /// New row `i` is row `parents[i]` of the previous step, followed by all of `tokens[i]`. All
    /// rows have the same number of tokens, at least one. A search reads prefixes in this way. By
    /// default, there is one [`step`](Self::step) for each token.
    fn read(&mut self, parents: &[usize], tokens: &[&[u32]]) -> Vec<f32> {
        let rows: Vec<usize> = (0..tokens.len()).collect();
        let length = tokens.first().map_or(0, |tokens| tokens.len());
        let mut logits = Vec::new();
        for position in 0..length {
            let next: Vec<u32> = tokens.iter().map(|tokens| tokens[position]).collect();
            let parents = if position == 0 { parents } else { &rows };
            logits = self.step(parents, &next);
        }
        logits
    }
}
