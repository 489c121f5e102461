//! What each command does.

pub mod backends;
pub mod bench;
pub mod fit;
