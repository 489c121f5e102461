//! The interface between scores and their bootstrap.

/// Counts of segments, from whose sum a score is computed.
pub trait Counts: Clone + Default {
    /// Adds the counts of other segments.
    fn add(&mut self, other: &Self);

    /// Returns the score of all segments that were added, from 0 to 100.
    fn value(&self) -> f64;
}
