//! What each command does.

pub mod backends;
pub mod fit;
