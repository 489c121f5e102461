//! The interface between a search and a model.

/// A model that predicts the next token of several rows at once.
///
/// A row is a target being decoded. The model keeps the rows of its last step. Each step creates
/// new rows from them; a row may be continued several times, or not at all.
pub trait Autoregressive {
    /// Returns the size `V` of the vocabulary, in tokens.
    fn vocab_size(&self) -> usize;

    /// Creates new rows and returns the logits of the tokens that follow them.
    ///
    /// New row `i` is row `parents[i]` of the previous step, followed by `tokens[i]`. The result
    /// has `V` logits per new row, one row after the other; they need not be normalised.
    ///
    /// Before the first step there is one empty row per source. The rows of a source are adjacent,
    /// in the order of the sources.
    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32>;
}
