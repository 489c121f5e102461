//! From a source to a target.

pub mod greedy;

pub use greedy::greedy;
