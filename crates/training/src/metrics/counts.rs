//! The trait of counts that the bootstrap adds up and turns into scores.

/// Counts of one or more segments, which can be added up and turned into a score.
pub trait Counts: Clone + Default {
    /// Adds the counts of other segments.
    fn add(&mut self, other: &Self);

    /// Returns the score of all segments that were added, from 0 to 100.
    fn value(&self) -> f64;
}
